import t from 'tap'
import { applyMask } from '../../../../src/proto/grpc/masks.ts'

const key = Uint8Array.of(1, 20, 130, 255)
const plain = Buffer.from('a text that is longer than some machine words. '.repeat(5))

const lengths = [0, 1, 2, 3, 4, 5, 7, 8, 53, 63, 64, 65, 66, 67, 200]

t.test('each byte meets its part of the key, wherever the bytes lie and begin', async (t) => {
  const wrong: string[] = []
  for (let offset = 0; offset < 4; offset++) {
    for (let at = 0; at < 4; at++) {
      for (const length of lengths) {
        const bytes = Buffer.concat([Buffer.alloc(offset), plain, Buffer.alloc(4)]).subarray(offset)
        applyMask(bytes.subarray(0, length), key, at)
        const masked = plain.subarray(0, length).map((byte, i) => byte ^ (key[(at + i) % 4] as number))
        const expected = Buffer.concat([masked, plain.subarray(length), Buffer.alloc(4)])
        if (!bytes.equals(expected)) wrong.push(`${length} bytes from ${offset} on, at ${at}`)
      }
    }
  }
  t.strictSame(wrong, [])
})
