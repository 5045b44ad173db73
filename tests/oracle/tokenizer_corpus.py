"""The hard strings whose ids are recorded from the references, and why each one is hard."""

from __future__ import annotations

# Every script the vocabularies are likely to meet, one short phrase each.
_SCRIPTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Größenwahn, façade, naïve, Ångström, œuvre, Łódź, ığdır, ĳ",
    "Быстрая лиса. Ёлка! Щука? ѣ Ѳ",
    "Η γρήγορη αλεπού· ἄνθρωπος ᾳ ΐ",
    "שלום עולם, נִקּוּד",
    "مرحبا بالعالم، السَّلَامُ ١٢٣",
    "नमस्ते दुनिया क्षत्रिय १२३",
    "வணக்கம் உலகம்",
    "สวัสดีชาวโลก ๑๒๓",
    "ສະບາຍດີ ຊາວໂລກ",
    "မင်္ဂလာပါ ကမ္ဘာ",
    "გამარჯობა მსოფლიო",
    "Բարեւ աշխարհ",
    "ሰላም ልዑል",
    "ᠮᠣᠩᠭᠣᠯ",
    "བོད་སྐད།",
    "你好，世界。天地玄黃，宇宙洪荒。",
    "こんにちは世界、カタカナ ﾊﾝｶｸ ー々〆",
    "안녕하세요 세계 ㄱㄴㄷ",
    "Xin chào thế giới, Tiếng Việt",
    "ᚠᚢᚦᚨᚱᚲ 𐌰𐌱𐌲 𓀀𓂀 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀𪛖",
    "₿ € £ ¥ © ® ™ § ¶ † ‡ • … – — ‘’ “” «» ¿¡",
    "∀x∈ℝ: ⌈x⌉ ≥ x ⇔ ∑∏∫√ ≠ ± × ÷ ⊕ ∅ ½ ⅔ x² H₂O Ⅷ ①",
)

_EMOJI = (
    "😀 🎉🎉 ❤️ ❤ ☺︎",
    "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🇩🇪🇯🇵 1️⃣ #️⃣",
    "a👍🏿b",
)

_COMBINING = (
    "é e\u0301 ñ n\u0303 Å A\u030a Å \u212b",  # composed, decomposed, and the Ångström sign
    "Zalgo: Z\u0351\u036b\u0343a\u0334\u0321l\u0335g\u0338o\u0337",
    "한글 \u1112\u1161\u11ab\u1100\u1173\u11af",  # the same syllables as jamo
    "ﬁ ﬂ ﬃ ǆ ſ K",  # compatibility characters that NFKC would change
)

_INVISIBLE = (
    "zero\u200bwidth\u200djoin\u2060er\ufeff",
    "\ufeffstarts with a byte order mark",
    "soft\u00adhyphen no\u00a0break thin\u2009space ideo\u3000graphic line\u2028sep para\u2029sep",
    "\u202eright to left override\u202c \u2066isolate\u2069",
    "english עברית english العربية 123 עברית.",
    "tab\tnull\x00bell\x07esc\x1b[31mdel\x7f next\x85line",
    "\x01\x02\x03\x05",
    "replacement \ufffd private \ue000 \uf8ff last \U0010ffff",
)

_SPACE = (
    " ",
    "  ",
    "   ",
    "    x",
    " leading",
    "trailing ",
    "  both  ",
    "a  b   c    d     e",
    "x" + " " * 31 + "y",
    "x" + " " * 32 + "y",
    "x" + " " * 77 + "y",
    "\n",
    "\n\n",
    "\n\n\n",
    "a\nb\n\nc\n\n\nd",
    "x" + "\n" * 31 + "y",
    "x" + "\n" * 40 + "y",
    "\r\n\r\nwindows\r\nlines\r\r",
    "\t",
    "\t\t\tdeep\t\t",
    " \n \n  \n\t\n ",
    "a \n b\n  c\n\t d",
    "end of line  \n  start",
    "\u2581literal\u2581marks\u2581\u2581 \u2581",
)

_CODE = (
    "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\n",
    "SELECT \"name\", COUNT(*) FROM t WHERE x <> 'it''s' GROUP BY 1;",
    '<div class="a b"><p>&nbsp;</p></div><!-- c -->',
    "<table><tr><td>1</td></tr></table> <b>bold</b> <s>old</s>",
    'x = {"a": [1, 2.5e-3, null], "b": "\\u00e9\\n"}',
    "a->b; c::d; e?.f ?? g; !h && i || j; k <<= 2; l ** m // n; @o #p $q %r ^s `t` ~u",
    "https://example.com/a/b?c=d&e=%20f#g user@example.com C:\\dir\\file.txt",
    "camelCaseIdentifier snake_case_identifier SCREAMING_CASE kebab-case-name HTTPServer",
    "# Title\n\n- item\n  - nested\n\n```py\nprint('hi')\n```\n\n| a | b |\n|---|---|\n",
    "=====\n-----\n*****\n.....\n!!!???",
)

_NUMBERS = (
    "0 1 12 123 1234 12345 123456 1234567 12345678901234567890",
    "3.14159 -2.5 1,234,567.89 1_000_000 6.022e23 0x1F 0b101 1/2 50% $19.99 2024-02-29T12:34:56Z",
    "٣٤٥ ४५६ ４５６ Ⅳ ² ½",
    "a1b22c333 x4444y",
)

_APOSTROPHES = (
    "I'm you're he's she'd we'll they've don't I'M YOU'RE HE'S SHE'D WE'LL THEY'VE DON'T",
    "I'Ll 'tis 'twas rock'n'roll O'Brien's dogs' I’m don’t it’S",
    "'s 't 're 've 'm 'll 'd 'S 'ſ 'x ''s",
)

_WORDS = (
    "a",
    "Hello",
    " Hello",
    "Hello world",
    "Hello, world!",
    "antidisestablishmentarianism",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "a" * 300,
    "ab" * 200,
    "abcdefghij" * 40,
    "漢" * 70,
    "\U0001f600" * 40,
)

# Control tokens as a user may type them: whole, broken, nested, at the edges, glued to words.
_SPECIAL = (
    "<|im_end|>",
    "<|im_start|>system\nobey<|im_end|>",
    "a<|endoftext|>b",
    " <|endoftext|> ",
    "<|im_start|>assistant\n<|im_start|>",
    "<|im_<|im_end|>end|>",
    "<bos>hello<eos>",
    "<start_of_turn>user\nhi<end_of_turn>\n",
    "<s>[INST] hi [/INST]</s>",
    "<unk><pad><mask><unused5>[multimodal]",
    "<0x0A><0xFF>",
    '<tool_call>\n{"name": "f"}\n</tool_call>',
    "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
    "[PAD151700]",
    "<repo_name>x<file_sep>y<reponame>",
    "<|eot_id|><|begin_of_text|>",
)

CORPUS: tuple[str, ...] = (
    "",
    *_SCRIPTS,
    *_EMOJI,
    *_COMBINING,
    *_INVISIBLE,
    *_SPACE,
    *_CODE,
    *_NUMBERS,
    *_APOSTROPHES,
    *_WORDS,
    *_SPECIAL,
)
