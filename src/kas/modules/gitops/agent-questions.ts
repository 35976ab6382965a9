import { create, type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { type AgentId, type Forward, noMetadata } from '../../../call/call.ts'
import { kasCaller } from '../../../call/caller.ts'
import { KnownMessages } from '../../../call/known-messages.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Deadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import { checkFieldCount } from '../../../proto/field-count.ts'
import {
  DriftRequestSchema,
  type DriftResponse,
  DriftResponseSchema,
  ReviewRequestSchema,
  ReviewResponseSchema,
} from '../../../proto/gen/gitops_drift_pb.ts'
import { Gitops } from '../../../proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import { callerMessage, keysAtAgent } from '../../agent-caller.ts'
import type { KasHost } from '../../module.ts'
import type { OwnRequest } from '../../own-endpoint.ts'
import type { Subject } from './subjects.ts'

const reviewMethod = methodPath(Gitops.method.review)
const driftMethod = methodPath(Gitops.method.drift)

/** Limit of a review: a status waits for it. ms */
const reviewMs = 5000
/** Limit of a question for drift, above the agent's own. ms */
const driftMs = 130_000
/** Bytes of one message of an answer: an object with 40 fields, and values of 1 KiB, has some 200 KiB. */
const maxMessageBytes = 1024 * 1024
/** Fields in such a message: the same object has some 400. */
const maxMessageFields = 2000

/** A caller, as the agent has to know it. */
export type Asker = Pick<OwnRequest, 'agentId' | 'caller' | 'impersonation' | 'signal'>

export interface AgentQuestionsComponents {
  readonly forward: Forward
  readonly serves: KasHost['serves']
  readonly away: KasHost['away']
  readonly clock: Clock
}

/** Questions to the pod of an agent that leads, for callers whose rights in the cluster decide what they see. */
export class AgentQuestions {
  readonly #components: AgentQuestionsComponents

  constructor(components: AgentQuestionsComponents) {
    this.#components = components
  }

  /**
   * Asks for each subject if the caller may get its objects.
   *
   * @throws KasError GITOPS_NOT_ASKED, AGENT_NOT_CONNECTED, DEADLINE_EXCEEDED, of the agent, or the signal's reason
   */
  async review(asker: Asker, subjects: readonly Subject[]): Promise<readonly boolean[]> {
    const { agentId, caller, impersonation } = asker
    const request = create(ReviewRequestSchema, {
      caller: callerMessage(keysAtAgent(agentId, caller), impersonation),
      subject: [...subjects],
    })
    const bytes = toBinary(ReviewRequestSchema, request)
    for await (const { mayGet } of this.#ask(
      asker,
      { method: reviewMethod, bytes, ms: reviewMs },
      ReviewResponseSchema,
    ))
      return mayGet
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'the agent has answered nothing' })
  }

  /**
   * Yields what differs between Git and the cluster, as far as the caller may get it, and then the end.
   *
   * @param scan - each object is compared first. @throws as `review`
   */
  drift(
    asker: Asker,
    { source, scan }: { readonly source: string; readonly scan: boolean },
  ): AsyncIterable<DriftResponse> {
    const { agentId, caller: keys, impersonation } = asker
    const caller = callerMessage(keysAtAgent(agentId, keys), impersonation)
    const bytes = toBinary(DriftRequestSchema, create(DriftRequestSchema, { caller, source, scan }))
    return this.#ask(asker, { method: driftMethod, bytes, ms: driftMs }, DriftResponseSchema)
  }

  async *#ask<O extends DescMessage>(
    { agentId, signal }: Asker,
    { method, bytes, ms }: { readonly method: string; readonly bytes: Uint8Array; readonly ms: number },
    output: O,
  ): AsyncGenerator<MessageShape<O>> {
    const { forward, clock } = this.#components
    this.#requireAgent(agentId, method)
    const reason = () => new KasError({ code: 'DEADLINE_EXCEEDED' })
    const deadline = new Deadline({ ms, clock, signals: [signal], reason })
    try {
      const reply = await forward({
        agentId,
        method,
        metadata: noMetadata,
        messages: new KnownMessages([bytes]),
        safety: 'safe',
        caller: kasCaller,
        signal: deadline.signal,
      })
      for await (const message of reply.messages) {
        if (message.length > maxMessageBytes) {
          throw new KasError({ code: 'INVALID_MESSAGE', detail: `a message of more than ${maxMessageBytes} bytes` })
        }
        checkFieldCount(output, message, maxMessageFields)
        yield decodeMessage(output, message)
      }
      const { error } = await reply.done
      if (error) throw error
    } finally {
      deadline.end()
    }
  }

  /** @throws KasError: nobody would answer */
  #requireAgent(agentId: AgentId, method: string): void {
    const { serves, away } = this.#components
    const absence = away(agentId)
    if (absence) throw new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 0, ...absence })
    if (serves(agentId, method) !== false) return
    const reason = 'no pod of it leads, or its agentk is older than this kas: see its log, or update it'
    throw new KasError({ code: 'GITOPS_NOT_ASKED', reason })
  }
}
