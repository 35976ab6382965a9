import t from 'tap'
import { asciiDrawing, asciiText, isAsciiLocale, PrintableOutput } from '../../../src/lib/printable-output.ts'

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

t.test('a muted output writes nothing and is no terminal; then it writes the last 1,000 texts', (t) => {
  let written = ''
  const output = new PrintableOutput({
    isTTY: true,
    write: (text: string) => {
      written += text
    },
  })
  output.write('before\n')
  output.mute()
  t.equal(output.isTTY, false)
  for (let i = 0; i < 1500; i++) output.write(`${i}\n`)
  output.mute()
  output.draw('\u001b[31mred\u001b[0m\u0007\n')
  t.equal(written, 'before\n')
  output.unmute()
  const lines = written.trimEnd().split('\n')
  t.equal(lines.length, 1001)
  t.strictSame(lines.slice(0, 2), ['before', '501'])
  t.equal(lines.at(-1), '?[31mred?[0m?', 'a text that steers a terminal does not do so later')
  t.equal(output.isTTY, true)
  output.unmute()
  output.write('after\n')
  t.equal(written.split('\n').at(-2), 'after', 'nothing is written twice')
  t.end()
})
