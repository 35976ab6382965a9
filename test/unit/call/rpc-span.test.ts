import t from 'tap'
import type { AgentId, Call } from '../../../src/call/call.ts'
import { gitlabCaller } from '../../../src/call/caller.ts'
import { RpcSpan } from '../../../src/call/rpc-span.ts'
import { RecordedTracer } from '../../support/recorded-tracer.ts'

t.test('a call goes on as a part of its span, with all else that it has', async (t) => {
  const call: Required<Call> = {
    agentId: 1n as AgentId,
    method: '/a/b',
    metadata: { 'x-own': ['1'] },
    messages: (async function* () {})(),
    safety: 'safe',
    caller: gitlabCaller,
    isWatch: true,
    isLog: true,
    reopens: true,
    waitsForAway: true,
    observer: { takenBy: () => undefined },
    signal: new AbortController().signal,
  }
  const span = RpcSpan.begin(new RecordedTracer(), { kind: 'client', method: call.method })
  const next = span.call(call)
  t.match(next.metadata, { 'x-own': ['1'], traceparent: [/^00-/] })
  t.strictSame({ ...next, metadata: call.metadata }, call)
  t.equal(RpcSpan.none.call(call), call)
  span.end()
})
