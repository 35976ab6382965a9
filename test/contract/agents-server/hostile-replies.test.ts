import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { StatusSchema } from '../../../src/proto/gen/google/rpc/status_pb.ts'
import { maxMetadataBytes, maxStatusTextBytes, metadataCut } from '../../../src/proto/grpc/sendable.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { callOf, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'

/** What an agent says of a reply beyond its bounds is passed on in part, and counted. */

t.test('metadata and errors are cut, with a mark, and counted once each', async (t) => {
  const refused: string[] = []
  const server = await startAgentsServer(t, { components: { onRefused: (reason) => refused.push(reason) } })
  const agent = await FakeAgent.dial(server.port)
  t.teardown(() => agent.close())
  const tunnel = agent.open()
  const call = server.forward(callOf(['a']))
  await tunnel.next()
  tunnel.send(encodeConnectRequest.header({ k: ['v'.repeat(70_000)] }))
  tunnel.send(encodeConnectRequest.trailer({ k: ['v'.repeat(2 * maxMetadataBytes)] }))
  tunnel.send(encodeConnectRequest.error(create(StatusSchema, { code: 5, message: 'no '.repeat(30_000) })))
  tunnel.stream.end()
  const { metadata, trailers, error } = await readReply(await call)
  t.same({ ...metadata }, { 'metadata-cut': metadataCut })
  t.same({ ...trailers }, { 'metadata-cut': metadataCut })
  t.ok(error?.message.startsWith('no no no '))
  t.ok(error?.message.endsWith(' ... (cut, of 90000 bytes)'))
  t.ok((error?.message.length ?? 0) <= maxStatusTextBytes)
  t.same(refused, ['reply_cut', 'reply_cut', 'reply_cut'])
})
