import t from 'tap'
import { hasControls, isPrintable, printable, printableJson, printableLines } from '../../../src/lib/printable.ts'

t.test('JSON reads as the same and steers no terminal', (t) => {
  const value = { text: 'a\u009b2J\u202e\u007f\n\u001b\u200b\ufeff\u{e0041}\ud800', list: [1] }
  for (const indent of [undefined, 2]) {
    const text = printableJson(value, indent)
    t.notMatch(text, /[\u007f-\u009f\u200b\u202a-\u202e\ufeff\ud800-\udfff]/)
    t.strictSame(JSON.parse(text), value)
  }
  t.match(printableJson(value, 2), /\n {2}"list"/)
  t.end()
})

t.test('what steers a terminal is one sign, all else stays', async (t) => {
  t.equal(printable('a\u001b[2J\u009b2J\r\n\u2028\u202e\u2067b\u007f'), 'a?[2J?2J?????b?')
  for (const text of ['größe 日本 \u{1f600}', 'a b', 'کتاب\u200cها', '\u{1f469}\u200d\u{1f4bb}\ufe0f', '']) {
    t.equal(printable(text), text)
    t.ok(isPrintable(text))
    t.notOk(hasControls(text), text)
  }
  for (const text of ['\0', 'a\n', '\u0085', 'a\u2066']) t.ok(hasControls(text), JSON.stringify(text))
})

t.test('what nobody sees is one sign, and half of one is none', async (t) => {
  t.equal(printable('pr\u200bod\ufeff \u200f\u00ad\u2060\u3164\u{e0041}'), 'pr?od? ?????')
  t.equal(printable('\ud800a\udc00\u{1f600}'), '?a?\u{1f600}')
  t.notOk(isPrintable('a\u200b'))
})

t.test('of lines their ends stay', async (t) => {
  t.equal(printableLines('a\tb\r\n\u001b[31mc\n'), 'a?b?\n?[31mc\n')
})

t.test('every sign that Unicode lets a reader ignore is one sign, but joiners and what makes an emoji', async (t) => {
  const joiners = new Set([0x200c, 0x200d])
  let ignorable = 0
  const passed: string[] = []
  const lost: string[] = []
  for (let code = 0; code <= 0x10ffff; code += 1) {
    const sign = String.fromCodePoint(code)
    if (!/^\p{Default_Ignorable_Code_Point}$/u.test(sign)) continue
    ignorable += 1
    const isKept = printable(`a${sign}b`) === `a${sign}b`
    const name = code.toString(16)
    if (isKept && !joiners.has(code)) passed.push(name)
    if (!isKept && joiners.has(code)) lost.push(name)
    if (!joiners.has(code)) {
      if (printable(`a${sign}b`) !== 'a?b') passed.push(name)
      const json = printableJson(sign)
      if (JSON.parse(json) !== sign || !/^"(\\u[0-9a-f]{4})+"$/.test(json)) passed.push(name)
    }
  }
  t.ok(ignorable > 4000)
  t.strictSame(passed, [])
  t.strictSame(lost, [])
  t.equal(printable('\u034f\u17b4\u17b5\u180b\u180f\ufe00\ufe0e\u{e0100}\u{e01ef}'), '?'.repeat(9))
  t.equal(printable('\u2764\ufe0f 1\ufe0f #\ufe0f \ufe0f'), '\u2764\ufe0f 1? #? ?')
})
