import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type FollowRequest, FollowRequestSchema, FollowResponseSchema } from '../../src/proto/gen/views_pb.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { FakeAgent, type FakeTunnel } from './fake-agent.ts'

export const followMethod = '/agentk.views.v1.Views/Follow'
export const leadMethod = '/agentk.views.v1.Views/Lead'

/** A leading pod: each opened view gets one update, with its origin, and one for each node. */
export class ViewsAgent {
  readonly agent: FakeAgent
  readonly name: string
  /** received messages, in short */
  readonly heard: string[] = []

  private constructor(agent: FakeAgent, name: string) {
    this.agent = agent
    this.name = name
  }

  /** @param methods - methods of its tunnels */
  static async start(
    port: number,
    name: string,
    methods = [leadMethod, followMethod],
    token?: string,
  ): Promise<ViewsAgent> {
    const own = new ViewsAgent(await FakeAgent.dial(port, token), name)
    for (let i = 0; i < 2; i++) void own.#serve(own.agent.open(methods))
    return own
  }

  close(): void {
    this.agent.close()
  }

  async #serve(tunnel: FakeTunnel): Promise<void> {
    let hasBegun = false
    for (let message = await tunnel.next(); message; message = await tunnel.next()) {
      if (message.kind !== 'message') continue
      const request = fromBinary(FollowRequestSchema, message.data)
      this.heard.push(`${request.view} ${request.step.case}`)
      const seq = nextSeq(request)
      if (seq === undefined) continue
      if (!hasBegun) tunnel.send(encodeConnectRequest.header({}))
      hasBegun = true
      const update = Buffer.from(JSON.stringify({ seq: Number(seq), at: 1, from: this.name }))
      tunnel.message(toBinary(FollowResponseSchema, create(FollowResponseSchema, { view: request.view, seq, update })))
    }
  }
}

/** Number of the next update: one for each view, and one more for its first page after its acknowledgement. */
function nextSeq({ step }: FollowRequest): bigint | undefined {
  if (step.case === 'open') return 1n
  return step.case === 'taken' && step.value.seq < 2n ? step.value.seq + 1n : undefined
}
