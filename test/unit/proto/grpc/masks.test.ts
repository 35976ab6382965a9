import t from 'tap'
import { applyMask } from '../../../../src/proto/grpc/masks.ts'

const key = Uint8Array.of(1, 20, 130, 255)

t.test('each byte meets its part of the key, wherever the bytes lie and begin', (t) => {
  const plain = Buffer.from('a text of some words, longer than a few machine words')
  for (let offset = 0; offset < 4; offset++) {
    for (let at = 0; at < 4; at++) {
      for (const length of [0, 1, 2, 3, 4, 5, 7, 8, 53]) {
        const bytes = Buffer.concat([Buffer.alloc(offset), plain]).subarray(offset, offset + length)
        applyMask(bytes, key, at)
        const expected = plain.subarray(0, length).map((byte, i) => byte ^ (key[(at + i) % 4] as number))
        if (!bytes.equals(expected)) t.fail(`at ${at}, ${length} bytes from ${offset} on`)
      }
    }
  }
  const around = Buffer.alloc(12)
  applyMask(around.subarray(3, 9), key)
  t.same([...around], [0, 0, 0, 1, 20, 130, 255, 1, 20, 0, 0, 0])
  t.end()
})
