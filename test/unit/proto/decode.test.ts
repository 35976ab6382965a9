import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { decodeMessage } from '../../../src/proto/decode.ts'
import { SourceStateSchema } from '../../../src/proto/gen/gitops_states_pb.ts'

t.test('fields that this version does not know become nothing; what is no message is refused', async (t) => {
  const known = toBinary(SourceStateSchema, create(SourceStateSchema, { source: '42-7', counts: { objects: 1 } }))
  const unknown = Buffer.from([0xc0, 0x3e, 1]) // field 1000
  const counts = Buffer.concat([Buffer.from([0x32, unknown.length]), unknown])
  const message = decodeMessage(SourceStateSchema, Buffer.concat([known, unknown, counts]))
  t.match(message, { source: '42-7', counts: { objects: 1 } })
  t.equal(message.$unknown, undefined)
  t.equal(message.counts?.$unknown, undefined)
  t.throws(() => decodeMessage(SourceStateSchema, Buffer.from([0xff])), {
    code: 'INVALID_MESSAGE',
    message: /malformed kas\.agent\.v1\.SourceState/,
  })
})
