import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import type { FakeAgent, FakeTunnel } from '../support/fake-agent.ts'
import { dialAgent, type Stage } from './stage.ts'

/** The message at which a call is answered; the caller of an upgrade sends no closeSend. */
type AnswersAt = 'requestInfo' | 'closeSend'

interface EvilAgentOptions {
  readonly at: ReplicaPorts
  readonly tunnels: number
  readonly answer: (tunnel: FakeTunnel) => void
  /** methods of its tunnels; default: the Kubernetes API */
  readonly methods?: string[]
  /** default: once the whole request has come */
  readonly answersAt?: AnswersAt
  /** default: token of the evil tenant's agent */
  readonly token?: string
}

/** Keeps so many tunnels at a replica; the attack answers each call. */
export class EvilAgent {
  readonly #agent: FakeAgent
  readonly #methods: string[]
  readonly #answer: (tunnel: FakeTunnel) => void
  readonly #answersAt: AnswersAt
  #closed = false

  private constructor(
    agent: FakeAgent,
    { methods = [kubernetesApiMethod], answer, answersAt = 'closeSend' }: EvilAgentOptions,
  ) {
    this.#agent = agent
    this.#methods = methods
    this.#answer = answer
    this.#answersAt = answersAt
  }

  static async start(stage: Stage, options: EvilAgentOptions): Promise<EvilAgent> {
    const { at, tunnels, token = stage.evil.agentToken } = options
    const evil = new EvilAgent(await dialAgent(stage, at, { token }), options)
    for (let i = 0; i < tunnels; i++) void evil.#serve()
    return evil
  }

  close(): void {
    this.#closed = true
    this.#agent.close()
  }

  /** Serves one tunnel after the other, until the connection ends. */
  async #serve(): Promise<void> {
    while (!this.#closed && !this.#agent.session.draining) {
      const tunnel = this.#agent.open(this.#methods)
      for (let message = await tunnel.next(); message; message = await tunnel.next()) {
        if (message.kind === this.#answersAt) this.#answer(tunnel)
      }
    }
  }
}
