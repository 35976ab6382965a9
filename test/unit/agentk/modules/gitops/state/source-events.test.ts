import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { gitSyncStatus } from '../../../../../../src/agentk/modules/gitops/state/git-sync-status.ts'
import { eventsOf, SourceEvents } from '../../../../../../src/agentk/modules/gitops/state/source-events.ts'
import { systemClock } from '../../../../../../src/lib/clock.ts'
import { Phase, type SourceState, SourceStateSchema } from '../../../../../../src/proto/gen/gitops_states_pb.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { eventually } from '../../../../../support/eventually.ts'

const about = { apiVersion: 'agent.gitlab.com/v1', kind: 'GitSync', namespace: 'agentk', name: '42-7', uid: 'u' }
const { signal } = new AbortController()

const trouble = (name: string, text = 'bad') => ({ key: { kind: 'ConfigMap', namespace: 'shop', name }, text })
const failing = (...names: string[]) => stateOf({ phase: Phase.FAILING, trouble: names.map((name) => trouble(name)) })
const stateOf = (state: object): SourceState => create(SourceStateSchema, { wanted: 'c2', commit: 'c1', ...state })

t.test('what is an Event of which state', async (t) => {
  const told = (state: object) => eventsOf(stateOf(state))?.map(({ reason, message }) => `${reason} ${message}`)
  t.strictSame(told({ phase: Phase.SYNCED, counts: { objects: 3 } }), ['Applied c1: 3 objects'])
  t.strictSame(told({ phase: Phase.REFUSED, problem: 'a.yaml:1: no kind' }), ['Refused c2: a.yaml:1: no kind'])
  const planned = [{ kind: 'Namespace', name: 'shop' }]
  t.strictSame(told({ phase: Phase.APPROVAL, plan: 'abc', planned }), [
    'ApprovalNeeded c2: plan abc deletes Namespace shop',
  ])
  t.strictSame(told({ phase: Phase.FAILING, trouble: [trouble('a')] }), ['ObjectFailed ConfigMap shop/a: bad'])
  for (const phase of [Phase.WAITING, Phase.READING, Phase.APPLYING, Phase.PRUNING, Phase.PAUSED]) {
    t.equal(told({ phase }), undefined)
  }
  const many = Array.from({ length: 100 }, (_, index) => trouble(`m${index}`, 'x'.repeat(5000)))
  const events = eventsOf(stateOf({ phase: Phase.FAILING, trouble: many })) ?? []
  t.equal(events.length, 20)
  t.ok(events.every(({ message }) => message.length <= 1024))
})

t.test('names and texts of others steer no terminal', async (t) => {
  const red = '\u001b[31m'
  const states = [
    { phase: Phase.FAILING, trouble: [trouble(`a${red}`, `b${red}\nc`)] },
    { phase: Phase.REFUSED, problem: `a${red}.yaml: d` },
    { phase: Phase.APPROVAL, plan: 'p', planned: [{ kind: 'Role', namespace: 'shop', name: `e${red}` }] },
    {
      phase: Phase.SYNCED,
      drifted: [{ kind: 'drifted', key: { kind: 'Role', name: `f${red}` }, path: [`.${red}`], manager: `g${red}` }],
    },
  ]
  for (const state of states) {
    const texts = eventsOf(stateOf(state))?.map(({ message }) => message) ?? []
    t.ok(texts.length > 0)
    for (const text of texts) t.notMatch(text, red.slice(0, 1), JSON.stringify(text))
    t.notMatch(JSON.stringify(gitSyncStatus(stateOf({ ...state, atMs: 1n }), [])), 'u001b')
  }
})

t.test('one of an object and reason, written again when it says something else', async (t) => {
  const kept = new Map<string, { message: string }>()
  const asked: string[] = []
  let status = 200
  const lane = {
    json: async (method: string, path: string, body: unknown) => {
      asked.push(method)
      if (status !== 200) return { status, body: { message: 'no right' } }
      const { metadata, message } = body as { metadata: { name: string }; message: string }
      const name = method === 'POST' ? metadata.name : (path.split('/').at(-1) as string)
      if (method === 'POST' && kept.has(name)) return { status: 409, body: {} }
      kept.set(name, { message })
      return { status, body: {} }
    },
  }
  const { log, lines } = capturedLog()
  const events = new SourceEvents({ lane, log, clock: systemClock })
  events.write(about, failing('a', 'b'), signal)
  await eventually(() => kept.size === 2)
  events.write(about, failing('a', 'b'), signal)
  events.write(about, failing('a', 'b', 'c'), signal)
  await eventually(() => kept.size === 3)
  t.strictSame(asked, ['POST', 'POST', 'POST'])
  // another pod leads and finds the events that are there
  const next = new SourceEvents({ lane, log, clock: systemClock })
  next.write(about, stateOf({ phase: Phase.FAILING, trouble: [trouble('a', 'worse')] }), signal)
  await eventually(() => [...kept.values()].some(({ message }) => message.endsWith('worse')))
  t.equal(kept.size, 3)
  // without the right, agentk logs it once and tries again with the next state
  status = 403
  asked.length = 0
  next.write(about, failing('d', 'e'), signal)
  await eventually(() => asked.length === 2)
  t.equal(lines.filter(({ msg }) => msg === 'Events cannot be written').length, 1)
  status = 200
  next.write(about, failing('d', 'e'), signal)
  await eventually(() => kept.size === 5)
})

t.test('of a removed source nothing stays in memory', async (t) => {
  let asked = 0
  const lane = {
    json: async () => {
      asked += 1
      return { status: 201, body: {} }
    },
  }
  const events = new SourceEvents({ lane, log: capturedLog().log, clock: systemClock })
  for (let i = 0; i < 50; i++) {
    events.write({ ...about, name: `42-${i}` }, failing('a'), signal)
    await eventually(() => asked === i + 1)
    events.forget(`42-${i}`)
  }
  t.equal(events.size, 0)
})
