import { create, type DescMessage, type MessageInitShape, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { type AgentId, type Call, type Forward, noMetadata } from '../../../call/call.ts'
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
import {
  PreviewRequestSchema,
  type PreviewResponse,
  PreviewResponseSchema,
} from '../../../proto/gen/gitops_preview_pb.ts'
import { Gitops } from '../../../proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import { callerMessage, keysAtAgent } from '../../agent-caller.ts'
import type { KasHost } from '../../module.ts'
import type { OwnRequest } from '../../own-endpoint.ts'
import type { ChosenFile } from './preview-files.ts'
import type { Subject } from './subjects.ts'

const reviewMethod = methodPath(Gitops.method.review)
const driftMethod = methodPath(Gitops.method.drift)
const previewMethod = methodPath(Gitops.method.preview)

/** Limit of a review: a status waits for it. ms */
const reviewMs = 5000
/** Limit of a question for drift, above the agent's own. ms */
const driftMs = 130_000
/** Limit of a preview, above the agent's own, with time to send it 20 MiB. ms */
const previewMs = 75_000
/** Bytes of a file in one message. */
const partBytes = 256 * 1024
/** Bytes of one message of an answer: an object with 40 fields, and values of 1 KiB, has some 200 KiB. */
const maxMessageBytes = 1024 * 1024
/** Fields in such a message: the same object has some 400. */
const maxMessageFields = 2000

/** A caller, as the agent has to know it. */
export type Asker = Pick<OwnRequest, 'agentId' | 'caller' | 'impersonation' | 'signal'>

/** Files whose effect the agent is asked for. */
export interface AskedPreview {
  /** id of the source */
  readonly source: string
  /** id of the preview's requests in the audit log of the cluster */
  readonly auditId: string
  /** live values are asked for */
  readonly values: boolean
  readonly files: readonly ChosenFile[]
}

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
      { method: reviewMethod, messages: new KnownMessages([bytes]), ms: reviewMs },
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
    const messages = new KnownMessages([bytes])
    return this.#ask(asker, { method: driftMethod, messages, ms: driftMs }, DriftResponseSchema)
  }

  /** @throws KasError GITOPS_NOT_ASKED, AGENT_NOT_CONNECTED: no pod of the agent makes previews */
  checkPreview(agentId: AgentId): void {
    this.#requireAgent(agentId, previewMethod)
  }

  /**
   * Yields what the files would change in the cluster, as far as the caller may get it, and then the end. Once a pod of
   * the agent has the question it is not asked again: the files are read once.
   *
   * @throws as `review`
   */
  preview(asker: Asker, asked: AskedPreview): AsyncIterable<PreviewResponse> {
    const messages = previewMessages(asker, asked)
    return this.#ask(asker, { method: previewMethod, messages, ms: previewMs }, PreviewResponseSchema)
  }

  async *#ask<O extends DescMessage>(
    { agentId, signal }: Asker,
    { method, messages, ms }: { readonly method: string; readonly messages: Call['messages']; readonly ms: number },
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
        messages,
        safety: messages instanceof KnownMessages ? 'safe' : 'unsafe',
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

/** Returns the messages of a preview: its begin, the files in parts, and their end. */
async function* previewMessages(
  { agentId, caller: keys, impersonation }: Asker,
  { source, auditId, values, files }: AskedPreview,
): AsyncGenerator<Uint8Array, void, void> {
  const encoded = (what: NonNullable<MessageInitShape<typeof PreviewRequestSchema>['what']>) =>
    toBinary(PreviewRequestSchema, create(PreviewRequestSchema, { what }))
  const caller = callerMessage(keysAtAgent(agentId, keys), impersonation)
  yield encoded({ case: 'begin', value: { caller, source, auditId, values } })
  for (const { path, data } of files) {
    // an empty file is one empty part
    for (let at = 0; at === 0 || at < data.length; at += partBytes) {
      yield encoded({ case: 'file', value: { path, data: data.subarray(at, at + partBytes) } })
    }
  }
  yield encoded({ case: 'end', value: { files: files.length } })
}
