import t from 'tap'
import { asciiDrawing, asciiText, isAsciiLocale } from '../../../src/lib/printable-output.ts'

t.test('signs that commands draw with are as wide as before', async (t) => {
  t.equal(asciiText('✗ degraded  ≥4m'), 'x degraded  >4m')
  t.equal(asciiDrawing('✗ café 😀'), 'x caf? ?')
  t.equal(asciiDrawing('├─ ✓ a\n│  └─ ◐ b ○ c ‖ d · e …'), '|- + a\n|  `- ~ b o c = d . e ~')
  t.equal(asciiText('plain\n'), 'plain\n')
})

t.test('other signs are escaped, and JSON reads as the same', async (t) => {
  t.equal(asciiText('café'), 'caf\\u00e9')
  t.equal(JSON.parse(asciiText(JSON.stringify('日本 😀'))), '日本 😀')
})

t.test('a locale that names another encoding than UTF-8 is one of ASCII', async (t) => {
  for (const locale of ['C', 'POSIX', 'en_US', 'de_DE.ISO-8859-1']) t.ok(isAsciiLocale({ LANG: locale }), locale)
  for (const locale of ['C.UTF-8', 'en_US.utf8', 'de_DE.UTF-8@euro', ''])
    t.notOk(isAsciiLocale({ LANG: locale }), locale)
  t.notOk(isAsciiLocale({}), 'where none is named')
  t.ok(isAsciiLocale({ LANG: 'en_US.UTF-8', LC_ALL: 'C' }), 'LC_ALL comes first')
  t.notOk(isAsciiLocale({ LANG: 'C', LC_CTYPE: 'en_US.UTF-8' }), 'then LC_CTYPE')
})
