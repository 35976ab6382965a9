import { create } from '@bufbuild/protobuf'
import { Configuration } from '../../src/agentk/configuration/configuration.ts'
import { parseKasAddress } from '../../src/agentk/tunnels/kas-address.ts'
import { KasSessions } from '../../src/agentk/tunnels/kas-sessions.ts'
import { stockPool, TunnelPool, type TunnelSession } from '../../src/agentk/tunnels/pool.ts'
import { dialKas } from '../../src/agentk/tunnels/transport.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { KasError } from '../../src/lib/errors.ts'
import { createLogger } from '../../src/lib/log.ts'
import { AgentMetaSchema } from '../../src/proto/gen/entity_pb.ts'
import type { ClientSession } from '../../src/proto/grpc/client-session.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { machineTime } from '../support/machine-time.ts'
import { type Transport, tokenOf } from './questions.ts'

const userAgent = 'gitlab-agent/v16.5.0/1234567 grpc-go/1.58.2'
const parts = { log: createLogger({ level: 'silent' }), clock: systemClock, random: Math.random }

/**
 * An agent that behaves as stock ones: one connection, with two idle tunnels and a configuration stream, and stock
 * back-off. It has no extensions of our agentk.
 */
export class StockAgent {
  /** time when all was connected last, by the machine's clock; undefined: it is not. ms */
  tunnelsAt: number | undefined
  configurationAt: number | undefined
  readonly #sessions: KasSessions
  readonly #pool: TunnelPool
  readonly #configuration: Configuration
  readonly #opened = new Map<ClientSession, number>()
  readonly #onBack: () => void

  /** @param onBack - called when `tunnelsAt` or `configurationAt` is set */
  constructor(options: { number: number; port: number; transport: Transport }, onBack: () => void) {
    const { number, port, transport } = options
    this.#onBack = onBack
    const address = parseKasAddress(`${transport}://127.0.0.1:${port}`)
    const authorization = () => `Bearer ${tokenOf(number)}`
    const dial = (signal: AbortSignal) => dialKas({ address, headers: [], userAgent, authorization, env: {} }, signal)
    this.#sessions = new KasSessions({ ...parts, dial }, { address, userAgent })
    const metadata = () => ({ authorization: [authorization()], 'grpc-encoding': ['gzip'] })
    const counted = {
      session: async (signal: AbortSignal) => this.#counted(await this.#sessions.session(signal)),
      onSession: (listener: (session: TunnelSession) => void) => this.#sessions.onSession(listener),
    }
    const serve = () => Promise.reject(new KasError({ code: 'CANCELLED', detail: 'this agent has no cluster' }))
    this.#pool = new TunnelPool({
      ...parts,
      sessions: counted,
      methods: () => new Map([[kubernetesApiMethod, serve]]),
      metadata,
    })
    const answered = {
      session: (signal: AbortSignal) => this.#sessions.session(signal),
      metadata,
      pingEvery: () => this.#configured(), // sent with the head of the answer; stock agents do not read it
    }
    const meta = create(AgentMetaSchema, {
      version: 'v16.5.0',
      podNamespace: 'gitlab-agent',
      podName: `agentk-${number}`,
    })
    this.#configuration = new Configuration({ ...parts, kas: answered }, { meta })
    this.#sessions.onSession((session) => void session.closed.then(() => this.#opened.delete(session)))
  }

  async start(): Promise<void> {
    await this.#sessions.start()
    await this.#configuration.start()
    await this.#pool.start()
  }

  /** Resets the times. */
  forget(): void {
    this.tunnelsAt = undefined
    this.configurationAt = undefined
  }

  #configured(): void {
    this.configurationAt ??= machineTime()
    this.#onBack()
  }

  /** Wraps a session so that it counts the tunnels opened on it. */
  #counted(session: ClientSession): TunnelSession {
    return {
      get draining() {
        return session.draining
      },
      open: (init) => {
        const stream = session.open(init)
        const count = (this.#opened.get(session) ?? 0) + 1
        this.#opened.set(session, count)
        // sent after the descriptors: when it is answered, kas has read them
        if (count === stockPool.minIdle) setImmediate(() => void this.#ask(session))
        return stream
      },
      onDraining: (listener) => session.onDraining(listener),
    }
  }

  async #ask(session: ClientSession): Promise<void> {
    const answered = await session.ping().then(
      () => true,
      () => false, // lost again: the next connection counts
    )
    if (!answered) return
    this.tunnelsAt ??= machineTime()
    this.#onBack()
  }
}
