import t from 'tap'
import type { Metadata } from '../../../src/call/call.ts'
import { kasCaller } from '../../../src/call/caller.ts'
import { dialReplica } from '../../../src/kas/peers/dial-replica.ts'
import { tunnelKey, writeHandOver } from '../../../src/kas/peers/hand-over-metadata.ts'
import { Lanes } from '../../../src/kas/peers/lanes.ts'
import { agentId } from '../../support/agents-server.ts'
import { echoMethod } from '../../support/fake-agent.ts'
import { idleTunnel } from '../../support/idle-tunnel.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startReplicasServer } from '../../support/replicas-server.ts'

t.test('a replica that leaves gives tunnels to its peers as long as it has some', async (t) => {
  const { server, identity, tunnels } = await startReplicasServer(t)
  tunnels.add(agentId, idleTunnel(echoMethod))
  const { publicKeyHash } = identity
  const address = `127.0.0.1:${server.address.port}`
  const session = await dialReplica({ address, publicKeyHash, identity }, new AbortController().signal)
  t.teardown(() => session.destroy())
  const lanes = new Lanes({ session, clock: new ManualClock() })
  const ask = async (): Promise<string | undefined> => {
    const { promise: answer, resolve } = Promise.withResolvers<string | undefined>()
    const read = (metadata: Metadata) => resolve(metadata[tunnelKey]?.[0])
    const handOver = { agentId, waitMs: 5000, eager: false, caller: kasCaller, isWatch: false, isLog: false }
    const metadata = writeHandOver(handOver, {}) // waits, because the last tunnel may just be given back
    const stream = lanes.open({ method: echoMethod, metadata, onInterim: read })
    void stream.done.then(({ trailers }) => read(trailers))
    await answer
    stream.cancel()
    await stream.done
    return answer
  }
  t.equal(await ask(), 'ready')
  await server.leave()
  t.equal(await ask(), 'ready', 'after the listen grace too')
})
