import { gzipSync } from 'node:zlib'
import t from 'tap'
import { gunzipAtOnce } from '../../../src/lib/gunzip-at-once.ts'

t.test('what is unpacked is the message, however long a chunk of zlib is', async (t) => {
  for (const length of [0, 1, 1023, 1024, 5000, 65_536]) {
    const message = Buffer.alloc(length, 'text ')
    t.same(gunzipAtOnce(gzipSync(message), 65_536), message, `${length} bytes`)
  }
})

t.test('a length that is not so counts for nothing; one over the bound is not unpacked here', async (t) => {
  const message = Buffer.alloc(50_000, 'text ')
  const packed = gzipSync(message)
  t.equal(gunzipAtOnce(packed, 49_999), undefined)
  const members = Buffer.concat([packed, gzipSync('')])
  t.same(gunzipAtOnce(members, 50_000), message, 'the last member alone says how long it is')
  t.equal(gunzipAtOnce(members, 49_999), undefined)
  for (const said of [0, 10, 49_999]) {
    packed.writeUInt32LE(said, packed.length - 4)
    t.throws(() => gunzipAtOnce(packed, 65_536), { code: 'Z_DATA_ERROR' })
  }
  t.throws(() => gunzipAtOnce(Buffer.from('no gzip'), 100), { code: 'Z_DATA_ERROR' })
})
