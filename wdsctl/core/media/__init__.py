"""What images, sounds and videos are, told from their headers. Nothing is decoded but, of some videos, one frame."""
