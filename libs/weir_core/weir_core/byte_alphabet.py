"""The characters that stand for bytes in byte-level vocabularies (GPT-2's table)."""


def character_of_byte() -> list[str]:
    """Return 256 characters: a printable byte stands for itself, others are U+0100 and up."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    characters = []
    others = 0
    for byte in range(256):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(0x100 + others))
            others += 1
    return characters
