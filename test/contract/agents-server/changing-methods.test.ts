import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { Serve } from '../../../src/agentk/tunnels/serve.ts'
import { Router } from '../../../src/kas/router/router.ts'
import { abortable } from '../../../src/lib/signals.ts'
import { FollowRequestSchema, FollowResponseSchema } from '../../../src/proto/gen/views_pb.ts'
import { viewsFeature } from '../../../src/proto/views-json.ts'
import { agentId, callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakePlacement } from '../../support/fake-placement.ts'
import { startFeeds } from '../../support/feeds.ts'
import { followMethod, leadMethod } from '../../support/views-agent.ts'
import { echoMethod, startConnections } from '../agentk/connections-side.ts'

/** Pods of our agentk begin and end to lead at our kas, so their methods change while calls run. */

const echo: Serve = async (call) => ({
  metadata: Promise.resolve({}),
  messages: call.messages,
  done: Promise.resolve({ trailers: {} }),
})

/** Sends one update per view with the pod's name. When the pod stops leading, it ends its Follow calls. */
function followOf(name: string, lead: AbortSignal): Serve {
  return async (call) => {
    async function* updates() {
      const steps = call.messages[Symbol.asyncIterator]()
      while (!lead.aborted) {
        const next = await abortable(steps.next(), lead).catch(() => undefined)
        if (!next || next.done) return
        const { view, step } = fromBinary(FollowRequestSchema, next.value)
        if (step.case !== 'open') continue
        const update = Buffer.from(JSON.stringify({ seq: 1, from: name }))
        yield toBinary(FollowResponseSchema, create(FollowResponseSchema, { view, seq: 1n, update }))
      }
    }
    return { metadata: Promise.resolve({}), messages: updates(), done: Promise.resolve({ trailers: {} }) }
  }
}

async function podAt(t: Test, port: number, name: string) {
  const methods: Record<string, Serve> = { [echoMethod]: echo, [leadMethod]: echo }
  const connections = await startConnections(t, `grpc://127.0.0.1:${port}`, { methods, pod: name })
  let term: AbortController | undefined
  const lead = () => {
    term = new AbortController()
    methods[followMethod] = followOf(name, term.signal)
    connections.announce()
  }
  const follow = () => {
    delete methods[followMethod]
    connections.announce()
    term?.abort()
  }
  return { name, connections, lead, follow }
}

t.test('the lead goes back and forth: views follow it, and no call is lost', async (t) => {
  const {
    tunnels,
    delivered: forward,
    port,
  } = await startAgentsServer(t, {
    components: { placement: new FakePlacement() },
  })
  const observer = { routed: () => undefined, timedOut: () => undefined }
  const router = new Router({ tunnels, observer })
  const serves: Router['serves'] = (agent, method) => router.serves(agent, method)
  const { feeds } = startFeeds(t, { forward, serves })
  const pods = [await podAt(t, port, 'pod-a'), await podAt(t, port, 'pod-b')]
  await eventually(() => serves(agentId, leadMethod) === true)
  const from = Array.from({ length: 20 }, () => '')
  const errors: unknown[] = []
  for (const i of from.keys()) {
    const update = async (json: Uint8Array) => {
      from[i] = JSON.parse(Buffer.from(json).toString()).from ?? from[i]
    }
    const wanted = { caller: { key: 'ada' }, as: undefined, query: Buffer.from('{}') }
    feeds.open(agentId, wanted, { update, ended: (error) => errors.push(error) })
  }
  let isRunning = true
  let calls = 0
  const caller = (async () => {
    while (isRunning) {
      const text = `${calls++}`
      const { messages, error } = await callThrough(forward, [text], { method: echoMethod })
      if (error || messages[0] !== text) errors.push(error ?? messages)
    }
  })()
  const gaps: number[] = []
  for (let round = 0; round < 10; round++) {
    const [next, last] = round % 2 === 0 ? pods : pods.toReversed()
    last?.follow()
    const began = performance.now()
    next?.lead()
    await eventually(() => from.every((one) => one === next?.name) || Promise.reject(new Error(from.join())))
    gaps.push(performance.now() - began)
  }
  isRunning = false
  await caller
  t.strictSame(errors, [])
  t.ok(calls > 0)
  for (const { connections } of pods)
    t.ok(connections.counts.idle <= 24, `tunnels are not left over: ${connections.counts.idle}`)
  t.comment(`${calls} calls; longest until all views had the next pod: ${Math.round(Math.max(...gaps))} ms`)
})

t.test('our kas says what features it has, ours alone asks for them', async (t) => {
  const { port } = await startAgentsServer(t, {
    components: { placement: new FakePlacement() },
    options: { hints: { features: [viewsFeature] } },
  })
  const connections = await startConnections(t, `grpc://127.0.0.1:${port}`)
  const told = new Promise<void>((resolve) => connections.onFeature(resolve))
  const session = await connections.session(new AbortController().signal)
  if (!connections.hasFeature(session, viewsFeature)) await told
  t.ok(connections.hasFeature(session, viewsFeature))
  t.notOk(connections.hasFeature(session, 'another'))
})
