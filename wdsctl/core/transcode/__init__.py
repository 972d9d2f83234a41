"""Media written anew: other formats, smaller images, other rates. The only place of core that encodes."""
