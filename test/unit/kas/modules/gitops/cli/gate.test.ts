import t from 'tap'
import { Gate } from '../../../../../../src/kas/modules/gitops/cli/gate.ts'
import type { ShownSource, ShownState } from '../../../../../../src/kas/modules/gitops/cli/state.ts'

/** Only one state gives exit code 0. These cases would make the gate report a false success. */

const old = 'a'.repeat(40)
const head = 'b'.repeat(40)
const polled = { commit: head, age_ms: 500 }
const source: ShownSource = {
  source: '42-7',
  project: 'platform/shop',
  commit: head,
  wanted: head,
  phase: 'SYNCED',
  problem: '',
  counts: { objects: 1, applied: 1, unchanged: 0, failed: 0 },
  trouble: [],
  stale: false,
  polled,
  is_current: true,
}
const configuration = { commit: 'c', problem: '', polled: { commit: 'c', age_ms: 500 } }
const state = (more: Partial<ShownSource> = {}, rest: Partial<ShownState> = {}): ShownState => ({
  sources: [{ ...source, ...more }],
  agent: 'connected',
  configuration,
  ...rest,
})
const judge = (one: ShownState, question = {}, youngMs = 1000) =>
  new Gate({ commit: head, source: undefined, ...question }).judge(one, youngMs)

t.test('what is synced at the head that was polled after the question is 0', async (t) => {
  t.match(judge(state()), { code: 0, isFinal: true })
  t.match(judge(state(), { commit: undefined }), { code: 0 })
  t.match(judge(state(), { commit: head.slice(0, 7) }), { code: 0 })
  t.match(judge(state(), { source: 'platform/shop' }), { code: 0 })
  t.match(judge(state({ is_current: undefined })), { code: 0 }, 'an older agentk does not say')
})

t.test('nothing else is 0', async (t) => {
  const waiting: [what: string, given: ShownState, code: number, question?: object][] = [
    ['polled before the question', state({ polled: { commit: head, age_ms: 1001 } }), 5],
    ['never polled, or of an older kas', state({ polled: undefined }), 5],
    [
      'the file polled before the question',
      state({}, { configuration: { ...configuration, polled: { commit: 'c', age_ms: 1001 } } }),
      5,
    ],
    ['the file of an older kas', state({}, { configuration: { commit: 'c' } }), 5],
    ['no configuration', state({}, { configuration: undefined }), 5],
    ['another file at the head', state({}, { configuration: { ...configuration, commit: 'd' } }), 3],
    [
      'a file that cannot be read',
      state({}, { configuration: { ...configuration, problem: 'x', phase: 'NOT_READY' } }),
      5,
    ],
    ['sources that are not shown', state({}, { cut: true }), 5],
    ['the commit before', state({ commit: old, wanted: old }), 3],
    ['not applied yet', state({ commit: old }), 3],
    ['the head is another commit', state({ polled: { commit: old, age_ms: 1 } }), 5],
    [
      'the head is another commit, whatever is wanted',
      state({ polled: { commit: old, age_ms: 1 } }),
      3,
      { commit: undefined },
    ],
    ['an empty repository', state({ polled: { commit: '', age_ms: 1 } }), 5, { commit: undefined }],
    ['a pod that is gone', state({ stale: true }), 5],
    ['another configuration', state({ is_current: false }), 3],
    ['a pause, or a dry run', state({ phase: 'PAUSED' }), 3],
    ['an object that failed', state({ counts: { objects: 1, applied: 0, unchanged: 0, failed: 1 } }), 4],
    ['an object that waits', state({ counts: { objects: 1, applied: 0, unchanged: 0, failed: 0, waiting: 1 } }), 3],
    ['failing', state({ phase: 'FAILING' }), 4],
    ['not ready for now', state({ phase: 'NOT_READY', reason: 'repository_not_read' }), 5],
    ['not reported', state({ phase: 'NOT_READY', reason: 'not_reported', commit: '', wanted: '' }), 5],
    ['an agent that is away', state({}, { agent: 'absent' }), 5],
    ...['WAITING', 'READING', 'APPLYING', 'PRUNING', 'WAITING_FOR_OTHERS', 'x'].map(
      (phase): [string, ShownState, number] => [phase, state({ phase }), 3],
    ),
  ]
  for (const [what, given, code, question] of waiting) t.match(judge(given, question), { code, isFinal: false }, what)
  const ended: [what: string, given: ShownState, code: number, question?: object][] = [
    ['refused', state({ phase: 'REFUSED', commit: old, problem: 'a.yaml:3' }), 1],
    ['a file that is refused', state({}, { configuration: { ...configuration, problem: 'x', phase: 'REFUSED' } }), 1],
    ['approval', state({ phase: 'APPROVAL' }), 6],
    ['a plan', state({ plan: 'p' }), 6],
    ['GitLab’s own agent', state({}, { agent: 'stock' }), 5],
    ['a source that there is not', state(), 5, { source: 'x' }],
    ['no source', state({}, { sources: [] }), 5],
    ['a source that has left', state({ phase: 'KEPT' }), 5],
    [
      'a ref that there is not',
      state({ phase: 'NOT_READY', reason: 'ref_not_found', polled: undefined }),
      5,
      { commit: undefined },
    ],
  ]
  for (const [what, given, code, question] of ended) t.match(judge(given, question), { code, isFinal: true }, what)
  const refusedBefore = state({ phase: 'REFUSED', commit: old, wanted: old })
  t.match(judge(refusedBefore), { code: 3, isFinal: false }, 'the commit before was refused: this one may be taken')
})

t.test('the worst of several sources; those with other commits at their head do not count', async (t) => {
  const other = { ...source, source: '42-8', project: 'a/b', phase: 'FAILING', polled: { commit: old, age_ms: 1 } }
  const both = { ...state(), sources: [source, other] }
  t.match(judge(both), { code: 0 })
  t.match(judge(both, { commit: undefined }), { code: 3 }, 'its agentk has not begun with it')
  const same = { ...other, polled }
  t.match(judge({ ...both, sources: [source, same] }), { code: 4 })
  t.match(judge({ ...both, sources: [source, { ...other, polled: undefined }] }), { code: 5 }, 'it may have it')
})

t.test('a commit that was the head once counts after the next one came, which is named', async (t) => {
  const gate = new Gate({ commit: old, source: undefined })
  t.match(gate.judge(state({ polled: { commit: old, age_ms: 1 }, phase: 'APPLYING', wanted: old }), 1000), { code: 3 })
  t.match(gate.judge(state(), 1000), { code: 5, isFinal: false, isPolled: false }, 'its history is asked for')
  t.equal(gate.searched, old)
  const later = (more: object) => state({ polled: { ...polled, contains: true }, ...more }, { commit: old })
  t.match(gate.judge(later({ wanted: old }), 1000), { code: 3 })
  t.match(gate.judge(later({}), 1000), {
    code: 0,
    reason: 'platform/shop: bbbbbbbb came after aaaaaaaa, and is in the cluster',
  })
})

t.test('a ref that is pushed by force while one waits: no state of another history ends the wait well', async (t) => {
  const other = 'd'.repeat(40)
  for (const commit of [old, old.slice(0, 10)]) {
    const gate = new Gate({ commit, source: undefined, health: true })
    const health = { healthy: 1, progressing: 0, degraded: 0, suspended: 0, missing: 0, unknown: 0, unread: 0 }
    const at = (id: string, more: object = {}, rest: object = {}) =>
      state({ polled: { commit: id, age_ms: 1, ...more }, commit: id, wanted: id, health }, rest)
    t.match(gate.judge(state({ polled: { commit: old, age_ms: 1 }, wanted: old, phase: 'APPLYING' }), 1000), {
      code: 3,
    })
    t.match(gate.judge(at(other), 1000), { code: 5, isFinal: false }, 'it may have come before that one')
    t.equal(gate.searched, old, 'by its whole id, whatever part of it was given')
    const reason =
      /^platform\/shop: commit aaaaaaaa was at its head, and is not found in its history now \(at its head: dddddddd\)$/
    const discarded = at(other, { contains: false }, { commit: old })
    t.match(gate.judge(discarded, 1000), { code: 5, isFinal: false, isPolled: true, reason })
    const failing = { ...discarded.sources[0], phase: 'FAILING', failed_rounds: 3 } as ShownSource
    t.match(gate.judge({ ...discarded, sources: [failing] }, 1000), { code: 5, isFinal: false, reason })
    const refused = { ...discarded.sources[0], phase: 'REFUSED', problem: 'no' } as ShownSource
    t.match(gate.judge({ ...discarded, sources: [refused] }, 1000), { code: 5, isFinal: false, reason })
    t.match(gate.judge(at(head, { contains: true }, { commit: old }), 1000), { code: 0 }, 'a later one of its own')
    t.match(gate.judge(at(other, { contains: false }, { commit: old }), 1000), { code: 5 }, 'away once more')
    t.match(gate.judge(at(old, {}, { commit: old }), 1000), { code: 0, isFinal: true }, 'it was pushed again')
  }
})

t.test('a commit that never comes, and one of another branch with the same ancestor', async (t) => {
  const gate = new Gate({ commit: old, source: undefined, health: true })
  t.match(gate.judge(state(), 1000), { code: 5, isFinal: false })
  for (let i = 0; i < 3; i++) {
    const asked = state({ polled: { ...polled, contains: false } }, { commit: old })
    t.match(gate.judge(asked, 1000), { code: 5, isFinal: false, reason: /commit aaaaaaaa is in no source/ })
  }
})

t.test(
  'a commit that was overtaken before anybody saw it: its repository is asked once it is at no head',
  async (t) => {
    const asked = { commit: old }
    const polledAs = (contains?: boolean) => ({ ...polled, ...(contains !== undefined && { contains }) })
    const gate = new Gate({ commit: old, source: undefined })
    t.equal(gate.searched, undefined)
    t.match(gate.judge(state(), 1000), { code: 5, isFinal: false, isPolled: false }, 'it goes on, without --wait too')
    t.equal(gate.searched, old)
    t.match(gate.judge(state({ polled: polledAs() }, asked), 1000), { code: 5, isFinal: false, isPolled: false })
    const reason = 'platform/shop: bbbbbbbb came after aaaaaaaa, and is in the cluster'
    t.match(gate.judge(state({ polled: polledAs(true) }, asked), 1000), { code: 0, isFinal: true, reason })
    const never = new Gate({ commit: old, source: undefined })
    never.judge(state(), 1000)
    t.match(never.judge(state({ polled: polledAs(false) }, asked), 1000), { code: 5, isFinal: false, isPolled: true })
    t.match(never.judge(state(), 1000), { code: 5, isPolled: true }, 'an older kas does not ask')
    t.match(never.judge(state({ polled: polledAs(true), commit: old }, asked), 1000), { code: 3 }, 'not applied yet')
    const other = { ...source, source: '42-8', project: 'a/b', polled: polledAs() }
    const both = (contains?: boolean) => ({
      ...state({ polled: polledAs(true) }, asked),
      sources: [
        { ...source, polled: polledAs(true) },
        { ...other, phase: 'FAILING', polled: polledAs(contains) },
      ],
    })
    const two = new Gate({ commit: old, source: undefined })
    two.judge(state(), 1000)
    t.match(two.judge(both(), 1000), { code: 5, isPolled: false }, 'the other source may have it, too')
    t.match(two.judge(both(true), 1000), { code: 4 })
    const short = new Gate({ commit: old.slice(0, 12), source: undefined })
    t.match(short.judge(state(), 1000), { code: 5, isPolled: true }, 'of a part of an id nobody is asked')
    t.equal(short.searched, undefined)
  },
)

t.test('with health, synced alone is not enough', async (t) => {
  const none = { healthy: 0, progressing: 0, degraded: 0, suspended: 0, missing: 0, unknown: 0, unread: 0 }
  const health = (counts: object) => state({ health: { ...none, ...counts } })
  const wait = (one: ShownState) => judge(one, { health: true })
  t.match(wait(health({ healthy: 2 })), { code: 0, isFinal: true })
  t.match(wait(health({})), { code: 0, isFinal: true }, 'no object can be unhealthy')
  t.match(wait(health({ healthy: 1, suspended: 1 })), { code: 0 }, 'somebody wants it so')
  const others: [counts: object, code: number, reason: RegExp][] = [
    [{ healthy: 1, unread: 1 }, 3, /health of 1 objects is being read/],
    [{ progressing: 1, unread: 1 }, 3, /is being read/],
    [{ healthy: 1, progressing: 1 }, 3, /1 progressing/],
    [{ healthy: 1, degraded: 1 }, 4, /1 degraded/],
    [{ degraded: 1, unread: 5 }, 4, /1 degraded/],
    [{ healthy: 1, missing: 1 }, 4, /1 missing/],
    [{ healthy: 1, unknown: 1 }, 5, /1 unknown/],
  ]
  for (const [counts, code, reason] of others) t.match(wait(health(counts)), { code, isFinal: false, reason })
  t.match(wait(state()), { code: 5, isFinal: true, reason: /does not judge the health/ }, 'an older agentk')
  t.match(wait(state({ health: { ...none, healthy: 1 }, stale: true })), { code: 5 }, 'the pod is gone')
  const key = { kind: 'Deployment', namespace: 'shop', name: 'web' }
  const culprit = { kind: 'Pod', namespace: 'shop', name: 'web-1-x' }
  const sick = { key, culprit, word: 'degraded', reason: 'ImagePullBackOff', text: 'no such image', since_ms: '0' }
  t.match(wait(state({ health: { ...none, degraded: 1 }, unhealthy: [sick] })), {
    reason: 'platform/shop: Deployment shop/web: degraded: Pod shop/web-1-x: ImagePullBackOff: no such image',
  })
  t.match(judge(health({ degraded: 1 })), { code: 0 }, 'without health it is synced')
  const applying = (more: object) => state({ phase: 'APPLYING', commit: old, health: { ...none, unread: 3, ...more } })
  t.match(wait(applying({ healthy: 1 })), { code: 3 })
  t.match(wait(applying({ degraded: 1 })), { code: 4, isFinal: false }, 'the round waits for an object that has failed')
  const ofOld = { ...applying({ degraded: 1 }).sources[0], wanted: old }
  t.match(wait(state(ofOld)), { code: 3 }, 'the round is for an earlier commit')
  t.match(wait(state({ phase: 'READING', commit: old, health: { ...none, degraded: 1 } })), { code: 3 })
})

t.test('with health, one failed round may have met what passes; two have not', async (t) => {
  const health = { healthy: 1, progressing: 0, degraded: 0, suspended: 0, missing: 0, unknown: 0, unread: 0 }
  const failing = (more: object) => judge(state({ phase: 'FAILING', problem: 'no', health, ...more }), { health: true })
  t.match(failing({ failed_rounds: 1 }), { code: 3, isFinal: false })
  t.match(failing({ failed_rounds: 2 }), { code: 4, isFinal: true })
  t.match(failing({ health: undefined, failed_rounds: 0 }), { code: 4, isFinal: false }, 'an older agentk: after 5 s')
  t.match(judge(state({ phase: 'REFUSED', problem: 'no' }), { health: true }), { code: 1, isFinal: true })
  t.match(failing({ failed_rounds: 2, wanted: old }), { code: 3, isFinal: false }, 'of an earlier commit')
})

t.test('a paused source is named at the first answer, with what ends the pause', async (t) => {
  const paused = { ...source, phase: 'PAUSED', polled: { commit: head, age_ms: 9_000_000 } }
  const texts = (given: Partial<ShownSource>, question = {}, of = [{ ...paused, ...given }]) =>
    new Gate({ commit: head, source: undefined, ...question }).pauseTexts({ ...state(), sources: of })
  const text = 'platform/shop is paused, and applies no commit: kas gitops resume 42-7 ends the pause'
  t.strictSame(texts({}), [text], 'before its repository is polled')
  t.strictSame(texts({}, { commit: undefined }), [text])
  t.match(judge(state({ phase: 'PAUSED' })), { code: 3, reason: text, isFinal: false }, 'the last words are the same')
  t.strictSame(texts({ problem: 'dry_run_strategy: server: nothing is written' }), [
    'platform/shop only tries its commits out, and applies none: take dry_run_strategy out of its configuration',
  ])
  t.match(texts({ source: '42-7; rm x' }), [/kas gitops resume SOURCE ends/], 'an agent may report any id')
  t.strictSame(texts({ phase: 'APPLYING' }), [])
  t.strictSame(texts({ stale: true }), [], 'what it reported may be old')
  t.strictSame(texts({ polled: { commit: old, age_ms: 1 } }), [], 'the commit is not at its head')
  t.strictSame(texts({}, { source: 'a/b' }), [], 'another source is asked for')
  const other = { ...paused, source: '42-8', project: 'a/b', phase: 'FAILING' }
  t.strictSame(texts({}, {}, [other, paused]), [text], 'whatever the verdict on the others')
  const gate = new Gate({ commit: old, source: undefined })
  gate.judge(state({ polled: { commit: old, age_ms: 1 }, wanted: old, phase: 'APPLYING' }), 1000)
  t.strictSame(gate.pauseTexts(state({ phase: 'PAUSED' })), [text], 'it had the commit at its head before')
})

t.test('wait with an older agentk, an older kas or the stock agent ends with 5 at most, and says why', async (t) => {
  const wait = (one: ShownState) => judge(one, { health: true })
  const older = wait(state())
  t.match(older, {
    code: 5,
    isFinal: true,
    reason: /^platform\/shop: this agentk does not judge the health of objects/,
  })
  const stock = wait(state({}, { agent: 'stock', sources: [] }))
  t.match(stock, { code: 5, isFinal: true, reason: /GitLab’s own: it reports no status/ })
  const health = { healthy: 1, progressing: 0, degraded: 0, suspended: 0, missing: 0, unknown: 0, unread: 0 }
  const noPoll = wait(state({ health, polled: undefined }))
  t.match(noPoll, { code: 5, isFinal: false, reason: /has not been polled yet/ }, 'a kas that sends no polls')
  const gate = new Gate({ commit: old, source: undefined, health: true })
  gate.judge(state({ health, polled: { commit: old, age_ms: 1 }, wanted: old, phase: 'APPLYING' }), 1000)
  for (let i = 0; i < 3; i++) {
    const later = gate.judge(state({ health }), 1000)
    t.match(
      later,
      { code: 5, isFinal: false, reason: /is aaaaaaaa in its history\?/ },
      'a kas that searches no history',
    )
  }
})

t.test('wait for a commit that is superseded or refused', async (t) => {
  const health = { healthy: 1, progressing: 0, degraded: 0, suspended: 0, missing: 0, unknown: 0, unread: 0 }
  const gate = new Gate({ commit: old, source: undefined, health: true })
  t.match(gate.judge(state({ health, phase: 'APPLYING', commit: old, wanted: head }), 1000), { code: 5 })
  const superseded = (more: object) =>
    state({ health, polled: { ...polled, contains: true }, ...more }, { commit: old })
  t.match(gate.judge(superseded({ phase: 'APPLYING', commit: old }), 1000), { code: 3 })
  const degraded = { health: { ...health, degraded: 1 } }
  t.match(gate.judge(superseded(degraded), 1000), { code: 4, isFinal: false }, 'the later one counts, as it is')
  t.match(gate.judge(superseded({ phase: 'REFUSED', problem: 'a.yaml:1' }), 1000), { code: 1, isFinal: true })
  t.match(gate.judge(superseded({}), 1000), { code: 0, isFinal: true, reason: /came after aaaaaaaa/ })
  const earlier = new Gate({ commit: head, source: undefined, health: true })
  const ofEarlier = { wanted: old, commit: old, health: { ...health, degraded: 1 } }
  for (const phase of ['REFUSED', 'FAILING', 'APPROVAL', 'SYNCED']) {
    const judged = earlier.judge(state({ ...ofEarlier, phase, plan: phase === 'APPROVAL' ? 'p' : '' }), 1000)
    t.match(judged, { code: 3, isFinal: false }, `${phase} of an earlier commit`)
  }
})
