import {
  create,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import type { Peer, Peers } from '../../../../src/kas/peers/peers.ts'
import { Code, KasError } from '../../../../src/lib/errors.ts'
import type { InstanceId } from '../../../../src/membership/membership.ts'
import type { UnaryMethods } from '../../../../src/proto/unary.ts'

/** Replicas in one process. Their methods are called without a link; a replica's name is also its instance. */
export class FakePeers implements Peers {
  readonly peers: ReadonlyMap<string, UnaryMethods>
  readonly #greetings = new Set<(peer: Peer) => Promise<void>>()

  constructor(peers: ReadonlyMap<string, UnaryMethods> = new Map()) {
    this.peers = peers
  }

  all(): readonly Peer[] {
    return Array.from(this.peers.keys(), (name) => ({ name, instance: name as InstanceId }))
  }

  isReachable(instance: InstanceId): boolean {
    return this.peers.has(instance)
  }

  /** Returns the first replica in rank; default: this one. */
  first(_key: string): Peer | 'self' | undefined {
    return 'self'
  }

  isFirst(key: string): boolean {
    return this.first(key) === 'self'
  }

  onChange(): () => void {
    return () => undefined
  }

  async call<M extends DescMethodUnary>(
    to: InstanceId,
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<MessageShape<M['output']>> {
    const serve = this.peers.get(to)?.get(`/${method.parent.typeName}/${method.name}`)
    if (!serve) throw new KasError({ code: 'STATUS', grpc: Code.UNIMPLEMENTED, message: 'not served' })
    const answer = await serve(toBinary(method.input, create<M['input']>(method.input, request)))
    return fromBinary<M['output']>(method.output, answer)
  }

  async broadcast<M extends DescMethodUnary>(method: M, request: MessageInitShape<M['input']>) {
    const answers = new Map<Peer, MessageShape<M['output']>>()
    const call = async (name: string) => {
      const peer = { name, instance: name as InstanceId }
      try {
        answers.set(peer, await this.call(peer.instance, method, request))
      } catch {
        // the peer has not answered
      }
    }
    await Promise.all(Array.from(this.peers.keys(), call))
    return answers
  }

  onReached(greet: (peer: Peer) => Promise<void>): () => void {
    this.#greetings.add(greet)
    return () => this.#greetings.delete(greet)
  }

  /** Calls the listeners as if this replica became reachable. */
  async reach(name: string): Promise<void> {
    for (const greet of this.#greetings) await greet({ name, instance: name as InstanceId })
  }
}
