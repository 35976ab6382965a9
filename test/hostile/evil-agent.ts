import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import type { FakeAgent, FakeTunnel } from '../support/fake-agent.ts'
import { dialAgent, type Stage } from './stage.ts'

/** Keeps so many tunnels at a replica; each call is answered as the attack wants it. */
export class EvilAgent {
  readonly #agent: FakeAgent
  readonly #answer: (tunnel: FakeTunnel) => void
  #closed = false

  private constructor(agent: FakeAgent, answer: (tunnel: FakeTunnel) => void) {
    this.#agent = agent
    this.#answer = answer
  }

  static async start(
    stage: Stage,
    { at, tunnels, answer }: { at: ReplicaPorts; tunnels: number; answer: (tunnel: FakeTunnel) => void },
  ): Promise<EvilAgent> {
    const evil = new EvilAgent(await dialAgent(stage, at), answer)
    for (let i = 0; i < tunnels; i++) void evil.#serve()
    return evil
  }

  close(): void {
    this.#closed = true
    this.#agent.close()
  }

  /** One tunnel after the other, until the connection ends. */
  async #serve(): Promise<void> {
    while (!this.#closed && !this.#agent.session.draining) {
      const tunnel = this.#agent.open([kubernetesApiMethod])
      for (let message = await tunnel.next(); message; message = await tunnel.next()) {
        if (message.kind === 'closeSend') this.#answer(tunnel)
      }
    }
  }
}
