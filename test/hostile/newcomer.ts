import { once } from 'node:events'
import { connect } from 'node:tls'
import { delay } from '../../src/lib/signals.ts'
import { encodeHttpResponse, kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { Kube } from '../soak/kube.ts'
import { FakeAgent } from '../support/fake-agent.ts'
import { patience } from '../support/slowness.ts'
import type { HostileGround } from './hostile-ground.ts'
import type { Stage } from './stage.ts'

/** Limit of a new user of the newcomer's agent. ms */
const patienceMs = patience(20_000)
const askAgainMs = 50

/**
 * Connects a good tenant's agent at one replica, and calls it as its user at another: both must be served.
 *
 * @param way - addresses of the replicas; default: without a front
 * @returns the problem; undefined: both were served
 */
export async function newcomerServed(
  { stage, entry, newcomer }: HostileGround,
  way: Stage = stage,
): Promise<string | undefined> {
  const socket = connect({ host: '127.0.0.1', port: way.holder.agents, ca: way.ca, ALPNProtocols: ['h2'] })
  socket.on('error', () => undefined) // shows in a missing answer
  const server = `https://127.0.0.1:${way.entry.kubernetes}`
  const access = { ...entry.access, server, credential: newcomer.userCredential }
  const kube = new Kube(access)
  const signal = AbortSignal.timeout(patienceMs)
  try {
    await once(socket, 'secureConnect', { signal })
    const agent = new FakeAgent(socket, { authorization: [`Bearer ${newcomer.agentToken}`] })
    void serveOnce(agent)
    for (;;) {
      const answer = await kube.open('/version', { signal })
      answer.resume()
      if (answer.statusCode === 200) return undefined
      // the agent counts as away until this replica gets the other one's row
      if (answer.statusCode !== 502) return `a newcomer's call: ${answer.statusCode}`
      await delay(askAgainMs, signal)
    }
  } catch (error) {
    return `a newcomer's call: ${(error as Error).message}`
  } finally {
    socket.destroy()
    kube.close()
  }
}

async function serveOnce(agent: FakeAgent): Promise<void> {
  const tunnel = agent.open([kubernetesApiMethod])
  for (let message = await tunnel.next(); message; message = await tunnel.next()) {
    if (message.kind !== 'closeSend') continue
    tunnel.send(encodeConnectRequest.header({}))
    tunnel.message(encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header: [] }))
    tunnel.message(encodeHttpResponse.trailer)
    tunnel.send(encodeConnectRequest.trailer({}))
    tunnel.stream.end()
  }
}
