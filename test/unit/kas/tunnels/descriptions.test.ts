import { create } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { AgentConnection } from '../../../../src/kas/tunnels/agent-connection.ts'
import { Descriptions, maxDescriptionsPerAgent } from '../../../../src/kas/tunnels/descriptions.ts'
import { AgentDescriptorSchema } from '../../../../src/proto/gen/info_pb.ts'
import type { ServerSession } from '../../../../src/proto/grpc/server-session.ts'
import { encodeConnectRequest } from '../../../../src/proto/reverse-tunnel.ts'

const [one, other] = [1n, 2n] as [AgentId, AgentId]

function openConnection() {
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  const connection = new AgentConnection({ closed } as unknown as ServerSession, 'agent:1', 0)
  const close = async () => {
    resolve()
    await closed
  }
  return { connection, close }
}

const describing = (...methods: string[]) =>
  encodeConnectRequest.descriptor(
    create(AgentDescriptorSchema, { services: [{ name: 's', methods: methods.map((name) => ({ name })) }] }),
  )

t.test('tunnels of one agent share what they serve, also over connections and in another order', async (t) => {
  const descriptions = new Descriptions()
  const [first, second] = [openConnection(), openConnection()]
  const methods = descriptions.of(one, first.connection, describing('a', 'b'))
  t.same([...methods], ['/s/a', '/s/b'])
  t.equal(descriptions.of(one, first.connection, describing('a', 'b')), methods)
  t.equal(descriptions.of(one, second.connection, describing('a', 'b')), methods)
  t.equal(descriptions.of(one, second.connection, describing('b', 'a')), methods)
  t.not(descriptions.of(other, second.connection, describing('a', 'b')), methods, 'no other agent holds it')
  t.equal(descriptions.size, 2)
})

t.test('they are kept as long as a connection that told them', async (t) => {
  const descriptions = new Descriptions()
  const [first, second] = [openConnection(), openConnection()]
  const methods = descriptions.of(one, first.connection, describing('a'))
  descriptions.of(one, second.connection, describing('a'))
  descriptions.of(one, second.connection, describing('b'))
  t.equal(descriptions.size, 2)
  await first.close()
  t.equal(descriptions.of(one, second.connection, describing('a')), methods)
  await second.close()
  t.equal(descriptions.size, 0)
  t.not(descriptions.of(one, openConnection().connection, describing('a')), methods)
})

t.test('what one agent tells is bounded, over all its connections; others see nothing of it', async (t) => {
  const descriptions = new Descriptions()
  const connections = Array.from({ length: maxDescriptionsPerAgent }, () => openConnection())
  for (const [i, { connection }] of connections.entries()) descriptions.of(one, connection, describing(`${i}`))
  const { connection } = openConnection()
  const more = () => descriptions.of(one, connection, describing('more'))
  t.throws(more, {
    code: 'INVALID_MESSAGE',
    message: 'the agent sends more than 8 different descriptors, allowed: 8',
  })
  t.ok(descriptions.of(one, connection, describing('0')), 'a known one is good')
  t.ok(descriptions.of(other, connection, describing('more')))
  await connections[1]?.close()
  t.ok(more(), 'one has gone')
})

t.test('the same methods in a thousand orders are one', async (t) => {
  const descriptions = new Descriptions()
  const { connection } = openConnection()
  const names = Array.from({ length: 200 }, (_, i) => `${i}`)
  const methods = descriptions.of(one, connection, describing(...names))
  for (let i = 1; i < 1000; i++) {
    const turned = [...names.slice(i % 200), ...names.slice(0, i % 200), ...names.slice(0, i / 200)]
    if (descriptions.of(one, connection, describing(...turned)) !== methods) t.fail(`order ${i}`)
  }
  t.equal(descriptions.size, 1)
})

t.test('what is no descriptor, or too large, is refused and leaves nothing', async (t) => {
  const descriptions = new Descriptions()
  const { connection } = openConnection()
  for (const [message, code] of [
    [encodeConnectRequest.header({}), 'INVALID_MESSAGE'],
    [new Uint8Array(), 'INVALID_MESSAGE'],
    [new Uint8Array(1 << 20), 'MESSAGE_TOO_LARGE'],
    [describing('x'.repeat(70_000)), 'MESSAGE_TOO_LARGE'],
    [describing('x'.repeat(600)), 'INVALID_MESSAGE'],
  ] as const) {
    t.throws(() => descriptions.of(one, connection, message), { code })
  }
  t.equal(descriptions.size, 0)
})
