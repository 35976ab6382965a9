import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { delay } from '../../../src/lib/signals.ts'
import { FollowRequestSchema, FollowResponseSchema, Views } from '../../../src/proto/gen/views_pb.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { methodPath } from '../../../src/proto/unary.ts'
import { viewsProtocol } from '../../../src/proto/views-json.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { dial, fleetOf, headOf, textFrame, upgradeHeaders } from '../stage.ts'

interface Size {
  /** number of agents, each with as many views as it may have */
  readonly agents: number
}

const [socketsOfEach, viewsOfEach, nodesOfEach] = [25, 20, 60]
const methods = [methodPath(Views.method.follow), methodPath(Views.method.lead)]
const told = /This replica of kas has \d+ MiB/
const text = 'x'.repeat(65_000)
/** ids of two bytes a character */
const nodes = Array.from({ length: nodesOfEach }, (_, i) => String(i).padEnd(1000, '\u2028'))

/** Answers each view as empty, so that it stays open. */
function show(tunnel: FakeTunnel): void {
  tunnel.send(encodeConnectRequest.header({}))
  const serve = async () => {
    for (let message = await tunnel.next(); message; message = await tunnel.next()) {
      if (message.kind !== 'message') continue
      const { view, step } = fromBinary(FollowRequestSchema, message.data)
      if (step.case !== 'open') continue
      const update = Buffer.from('{"seq":1,"at":1}')
      tunnel.message(toBinary(FollowResponseSchema, create(FollowResponseSchema, { view, seq: 1n, update })))
    }
  }
  void serve()
}

/** A user with agents of its own, and views of them with the largest allowed queries. */
export const longQueries: Attack<Size> = {
  name: 'long-queries',
  what: 'views of many agents of one tenant, each with the longest query, and with the longest ids of open nodes',
  refusal: told,
  cheap: { agents: 2 },
  full: { agents: 60 },
  async play(stage, { agents }, signal) {
    const { tenant, userToken } = fleetOf(stage)
    const started: EvilAgent[] = []
    const sockets: TLSSocket[] = []
    let refusal = ''
    const open = async (agent: string) => {
      const socket = dial(stage.ca, stage.holder.kubernetes)
      sockets.push(socket)
      socket.on('data', (chunk) => {
        refusal ||= told.exec(String(chunk))?.[0] ?? ''
      })
      await once(socket, 'secureConnect', { signal })
      socket.write(headOf('GET /views', `pat:${agent}:${userToken}`, ...upgradeHeaders(viewsProtocol)))
      await once(socket, 'data', { signal })
      const say = (message: object) =>
        new Promise((resolve) => void socket.write(textFrame(JSON.stringify(message)), resolve)) // errors, too
      for (let id = 1; id <= viewsOfEach && !refusal; id++) {
        await say({ type: 'open', id, agent, view: 'tree', filter: { text } })
        for (const node of nodes) await say({ type: 'page', id, node, limit: 1 })
      }
    }
    const end = async () => {
      for (const socket of sockets) socket.destroy()
      for (const agent of started) agent.close()
    }
    try {
      for (const { id, token } of tenant.slice(0, agents)) {
        started.push(
          await EvilAgent.start(stage, {
            at: stage.holder,
            tunnels: 2,
            methods,
            answer: show,
            answersAt: 'requestInfo',
            token,
          }),
        )
        for (let i = 0; i < socketsOfEach && !refusal; i++) await open(String(id))
      }
      while (!refusal) await delay(100, signal)
      return { refusal, end }
    } catch (error) {
      await end()
      throw error
    }
  },
}
