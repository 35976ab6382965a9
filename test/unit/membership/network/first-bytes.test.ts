import t from 'tap'
import { FirstBytes, firstBounds } from '../../../../src/membership/network/first-bytes.ts'

const protocols = ['/kas/noise/1/aaaaaaaaaaaaaaaa', '/kas/noise/1/bbbbbbbbbbbbbbbb']
const message = (text: string) => Buffer.from(`${String.fromCharCode(text.length + 1)}${text}\n`, 'latin1')
const begin = message('/multistream/1.0.0')
const noise = (text = protocols[0] as string) => message(text)
const accepts = (chunks: readonly Uint8Array[]) => {
  const first = new FirstBytes(protocols)
  return chunks.map((chunk) => first.accept(chunk))
}
const bytewise = (bytes: Buffer) => Array.from(bytes, (byte) => Buffer.of(byte))

t.test('what members send is handed on, in whatever pieces it comes', async (t) => {
  const whole = Buffer.concat([begin, noise(), Buffer.alloc(600, 0xff)])
  t.same(accepts([whole]), [true])
  t.notMatch(accepts(bytewise(whole)), [false])
  t.notOk(accepts(bytewise(whole)).includes(false))
  t.same(
    accepts([begin, noise('/kas/noise/1/cccccccccccccccc'), noise(protocols[1])]),
    [true, true, true],
    'the other secret',
  )
})

t.test('more negotiations than members have are not', async (t) => {
  const other = message('ab')
  const within = Array.from({ length: firstBounds.negotiations }, () => other)
  t.same(
    accepts(within),
    within.map(() => true),
  )
  t.equal(accepts([...within, other]).at(-1), false)
  t.same(accepts([Buffer.concat([...within, other])]), [false], 'nor any of them, in one piece')
  t.equal(accepts(bytewise(Buffer.concat([...within, other]))).at(-1), false)
})

t.test('messages that are longer than any name are not', async (t) => {
  t.same(accepts([Buffer.of(0x80)]), [false])
  t.same(accepts([begin, Buffer.of(0xff, 0x07)]), [true, false])
  t.same(accepts([Buffer.of(0)]), [false])
})

t.test('more bytes than members send are not, also behind a negotiation', async (t) => {
  const head = Buffer.concat([begin, noise()])
  const rest = Buffer.alloc(firstBounds.bytes - head.length)
  t.same(accepts([head, rest, Buffer.of(1)]), [true, true, false])
})
