import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import type { Attack, Round } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { dial, type Fleet, type FleetAgent, fleetOf, headOf, type Stage, textOf } from '../stage.ts'

interface Size {
  readonly agents: number
  /** callers of each agent: fewer than the agent's own limit */
  readonly callers: number
}

const chunk = encodeHttpResponse.data(Buffer.alloc(32 * 1024))
const dialsAtOnce = 11
/** tunnels for callers that come until one is refused */
const spareTunnels = 20
const told = /^429 .*This replica of kas has \d+ MiB/s

/** Sends an endless answer: the kernel buffers some MiB for each reader before kas has to keep any. */
async function answer(tunnel: FakeTunnel): Promise<void> {
  tunnel.send(encodeConnectRequest.header({}))
  tunnel.message(encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header: [] }))
  let isOver = false
  void tunnel.done.then(() => {
    isOver = true
  })
  while (!isOver) await (tunnel.stream.send(chunk, encodeConnectRequest.messageHead(chunk.length)) ?? setImmediate())
}

/** Callers that read the first bytes of an answer and nothing after them. */
class Readers {
  readonly #stage: Stage
  readonly #port: number
  readonly #signal: AbortSignal
  readonly #sockets: TLSSocket[] = []
  /** the first refusal */
  refusal = ''

  constructor(stage: Stage, port: number, signal: AbortSignal) {
    this.#stage = stage
    this.#port = port
    this.#signal = signal
  }

  async open(credential: string): Promise<void> {
    const socket = dial(this.#stage.ca, this.#port)
    this.#sockets.push(socket)
    const signal = this.#signal
    await once(socket, 'secureConnect', { signal })
    socket.write(headOf('GET /x', credential))
    await abortable(Promise.race([once(socket, 'readable'), once(socket, 'close')]), signal)
    const text = textOf(String(socket.read() ?? ''))
    if (told.test(text)) this.refusal ||= text
  }

  end(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

interface Way {
  readonly fleet: readonly FleetAgent[]
  /** port of kas where its callers connect */
  readonly port: number
  readonly credentialOf: (agent: FleetAgent) => string
}

async function play(
  stage: Stage,
  { agents, callers }: Size,
  signal: AbortSignal,
  { fleet, port, credentialOf }: Way,
): Promise<Round> {
  const used = fleet.slice(0, agents)
  const readers = new Readers(stage, port, signal)
  const started: EvilAgent[] = []
  const end = async () => {
    readers.end()
    for (const agent of started) agent.close()
  }
  try {
    for (const agent of used) {
      const { token } = agent
      started.push(
        await EvilAgent.start(stage, {
          at: stage.holder,
          tunnels: callers + spareTunnels,
          answer: (tunnel) => void answer(tunnel),
          token,
        }),
      )
      for (let i = 0; i < callers; i += dialsAtOnce)
        await Promise.all(Array.from({ length: dialsAtOnce }, () => readers.open(credentialOf(agent))))
    }
    for (let i = 0; !readers.refusal; i++) await readers.open(credentialOf(used[i % used.length] as FleetAgent))
  } catch (error) {
    await end()
    throw error
  }
  return { refusal: readers.refusal, end }
}

const full: Size = { agents: 60, callers: 22 }
const userCredential = ({ userToken }: Fleet, { id }: FleetAgent) => `pat:${id}:${userToken}`
const jobCredential = ({ jobToken }: Fleet, { id }: FleetAgent) => `ci:${id}:${jobToken}`

export const fleetOfTenant: Attack<Size> = {
  name: 'fleet-of-tenant',
  what: 'one tenant with many agents, whose callers read nothing of long answers, within the bounds of each agent',
  refusal: told,
  isLong: true, // the kernel's buffers of all readers have to fill first
  cheap: { agents: 4, callers: 22 },
  full,
  async play(stage, size, signal) {
    const fleet = fleetOf(stage)
    return await play(stage, size, signal, {
      fleet: fleet.tenant,
      port: stage.holder.kubernetes,
      credentialOf: (agent) => userCredential(fleet, agent),
    })
  },
}

export const fleetOfProjects: Attack<Size> = {
  name: 'fleet-of-projects',
  what: 'one CI job that may use agents of many projects, and does the same',
  refusal: told,
  isLong: true, // the kernel's buffers of all readers have to fill first
  cheap: { agents: 7, callers: 22 },
  full,
  async play(stage, size, signal) {
    const fleet = fleetOf(stage)
    return await play(stage, size, signal, {
      fleet: fleet.projects,
      port: stage.entry.kubernetes,
      credentialOf: (agent) => jobCredential(fleet, agent),
    })
  },
}
