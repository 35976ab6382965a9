import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { StatusSchema } from '../../../src/proto/gen/google/rpc/status_pb.ts'
import { maxMetadataBytes, maxStatusTextBytes, metadataCut } from '../../../src/proto/grpc/sendable.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { callOf, callThrough, readReply, startAgentsServer } from '../../support/agents-server.ts'
import { FakeAgent } from '../../support/fake-agent.ts'

/** Metadata and errors of an agent beyond the bounds: kas passes on a part and counts the reply. */

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

t.test('replies whose readers have left count for nothing: who reads his is served', async (t) => {
  const refused: string[] = []
  const server = await startAgentsServer(t, { components: { onRefused: (reason) => refused.push(reason) } })
  const agent = await FakeAgent.dial(server.port)
  t.teardown(() => agent.close())
  const piece = Buffer.alloc(32 * 1024)
  const answer = async (pieces: number) => {
    const tunnel = agent.open()
    await tunnel.next()
    tunnel.send(encodeConnectRequest.header({}))
    for (let i = 0; i < pieces; i++) tunnel.message(piece)
    return tunnel
  }
  for (let i = 0; i < 100; i++) {
    const caller = new AbortController()
    const [tunnel, { messages }] = await Promise.all([
      answer(40),
      server.forward(callOf(['a'], { signal: caller.signal })),
    ])
    await messages[Symbol.asyncIterator]().next()
    caller.abort(new KasError({ code: 'CANCELLED' }))
    await tunnel.done
  }
  const honest = callThrough(server.forward, ['a'])
  const tunnel = await answer(200)
  tunnel.send(encodeConnectRequest.trailer({}))
  tunnel.stream.end()
  const { messages, error } = await honest
  t.equal(error, undefined)
  t.equal(messages.length, 200)
  t.same(refused, [])
})
