import t from 'tap'
import { readOutcome, tunnelKey, writeHandOver } from '../../../../../src/kas/router/hand-over.ts'
import { HandOvers } from '../../../../../src/kas/servers/replicas/hand-overs.ts'
import type { Tunnel } from '../../../../../src/kas/tunnels/tunnel.ts'
import { Tunnels } from '../../../../../src/kas/tunnels/tunnels.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { type Metadata, noMetadata } from '../../../../../src/proto/call.ts'
import type { ServerStream } from '../../../../../src/proto/grpc/server-session.ts'
import { agentId } from '../../../../support/agents-server.ts'

const method = '/test.Echo/Echo'

t.test('a tunnel that is lost between ready and the first message is an error, and nothing was sent', async (t) => {
  const tunnels = new Tunnels({ now: () => 0 })
  const tunnel = {
    state: 'idle',
    methods: new Set([method]),
    connection: { isSuspect: () => false },
    ended: new Promise<void>(() => undefined),
    take: () => {
      tunnel.state = 'taken'
    },
  }
  tunnels.add(agentId, tunnel as unknown as Tunnel)
  const interim: Metadata[] = []
  let trailers: Metadata = noMetadata
  const stream = {
    method,
    metadata: writeHandOver({ agentId, waitMs: 0 }, {}),
    signal: new AbortController().signal,
    messages: {
      take: () => {
        tunnel.state = 'ended'
        return Buffer.from('too late')
      },
    },
    sendInterim: (metadata: Metadata) => void interim.push(metadata),
    addTrailers: (metadata: Metadata) => {
      trailers = { ...trailers, ...metadata }
    },
  }
  const served = new HandOvers({ tunnels }).serve(stream as unknown as ServerStream)
  const error = await t.rejects(served).then(() => served.catch(KasError.from))
  t.same(interim, [{ [tunnelKey]: ['ready'] }])
  const status = new KasError({ code: 'STATUS', grpc: (error as KasError).grpcCode, message: '' })
  t.same(readOutcome({ error: status, trailers }).error?.spec, { code: 'TUNNEL_LOST', delivery: 'none' })
})
