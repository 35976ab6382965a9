import t from 'tap'
import {
  hasRestartTime,
  isLaterRestart,
  keepLaterRestarts,
} from '../../../../../../src/agentk/modules/gitops/apply/restarts.ts'
import { patience } from '../../../../../support/slowness.ts'

const name = 'kubectl.kubernetes.io/restartedAt'
const [early, late] = ['2026-01-01T08:00:00Z', '2026-01-02T08:00:00Z']
const pod = (time: unknown, more: object = {}) => ({ metadata: { annotations: { [name]: time, ...more } } })
const object = (template: object) => ({ kind: 'Any', spec: { template } })

t.test('the later time counts, and all else is Git’s', async (t) => {
  const git = object(pod(early, { 'example.com/a': '1' }))
  const live = object({ ...pod(late, { 'example.com/a': '2', 'example.com/b': '3' }), spec: { a: 1 } })
  t.strictSame(keepLaterRestarts(git, live), object(pod(late, { 'example.com/a': '1' })))
  t.strictSame(git, object(pod(early, { 'example.com/a': '1' })), 'Git’s object itself stays')
  t.strictSame(keepLaterRestarts(object(pod(late)), object(pod(early))), object(pod(late)))
})

t.test('live objects of any shape', async (t) => {
  const git = object(pod(early))
  const shapes = [undefined, null, 'text', 7, [], {}, { spec: null }, { spec: [] }, object({ metadata: [] })]
  const times = [7, null, true, {}, [late], '', 'soon', `${late}x`, '2026-01-02 08:00:00Z', '2026-01-02T25:00:00Z']
  for (const live of [...shapes, ...times.map((time) => object(pod(time)))]) {
    t.strictSame(keepLaterRestarts(git, live), git, JSON.stringify(live))
  }
})

t.test('Git’s objects of any shape', async (t) => {
  for (const value of [7, null, true, {}, '', 'soon', '1767225600']) {
    const git = object(pod(value))
    t.strictSame(keepLaterRestarts(git, object(pod(late))), git, JSON.stringify(value))
  }
  const odd = { annotations: ['restartedAt'], a: { annotations: 'restartedAt' }, b: { annotations: null } }
  t.strictSame(keepLaterRestarts(odd, odd), odd)
  t.equal(hasRestartTime(odd), false)
  const inherited = JSON.parse(`{ "spec": { "__proto__": { "annotations": { "${name}": "${early}" } } } }`)
  t.equal(JSON.stringify(keepLaterRestarts(inherited, {})), JSON.stringify(inherited))
})

t.test('items of lists are compared by name alone', async (t) => {
  const git = {
    spec: { sets: [{ name: 'a', pod: pod(early) }, { name: 'b', pod: pod(early) }, { pod: pod(early) }, 1] },
  }
  const live = { spec: { sets: [{ pod: pod(late) }, { name: 'b', pod: pod(late) }, { pod: pod(late) }, 1] } }
  const sent = { spec: { sets: [git.spec.sets[0], { name: 'b', pod: pod(late) }, git.spec.sets[2], 1] } }
  t.strictSame(keepLaterRestarts(git, live), sent)
})

t.test('a field that a later restart has changed, and nothing else has', async (t) => {
  const isLater = (path: string[], before: unknown, after: unknown) => isLaterRestart({ path, before, after })
  const template = ['f:spec', 'f:template']
  const annotations = [...template, 'f:metadata', 'f:annotations']
  const field = [...annotations, `f:${name}`]
  t.equal(isLater(field, early, late), true)
  t.equal(isLater(field, late, early), false)
  for (const after of [undefined, null, 7, 'soon']) t.equal(isLater(field, early, after), false, String(after))
  t.equal(isLater(field, undefined, late), false, 'Git sets none')
  t.equal(isLater(['f:data', 'f:restartedAt'], early, late), false, 'it is no annotation')
  t.equal(isLater([...annotations, 'f:example.com/at'], early, late), false)
  t.equal(isLater(annotations, { [name]: early }, { [name]: late }), true, 'all annotations are one value')
  t.equal(isLater(annotations, { [name]: early, a: '1' }, { [name]: late, a: '2' }), false)
  t.equal(isLater(template, pod(early), pod(late)), true, 'the template is one value')
  t.equal(isLater(['f:sets'], [{ name: 'a', pod: pod(early) }], [{ name: 'a', pod: pod(late) }]), true)
  t.equal(isLater(['f:sets'], [{ name: 'a', pod: pod(early) }], [{ name: 'b', pod: pod(late) }]), false)
  t.equal(isLater([], undefined, undefined), false)
})

t.test('an object without a time of a restart needs no live object', async (t) => {
  for (const annotation of ['restartedAt', 'a.example/restartedAt', name]) {
    const annotated = { metadata: { annotations: { [annotation]: early } } }
    t.equal(hasRestartTime(annotated), true, annotation)
    t.equal(hasRestartTime({ spec: { jobTemplate: { spec: { template: annotated } } } }), true)
    t.equal(hasRestartTime({ spec: { sets: [{}, annotated] } }), true)
  }
  for (const annotation of [
    'example.com/restarted',
    'example.com/restartedAtLast',
    'restartedAt/x',
    'notrestartedAt',
  ]) {
    t.equal(hasRestartTime({ metadata: { annotations: { [annotation]: early } } }), false, annotation)
  }
  t.equal(hasRestartTime({ data: { restartedAt: early }, metadata: { labels: { restartedAt: 'x' } } }), false)
})

t.test('long lists take no quadratic work', async (t) => {
  const items = (count: number, of: string) => Array.from({ length: count }, (_, i) => ({ name: `${of}${i}` }))
  const began = process.cpuUsage()
  keepLaterRestarts({ items: items(10_000, 'a') }, { items: items(50_000, 'b') })
  const { user } = process.cpuUsage(began)
  t.ok(user / 1000 < patience(3000), `${user / 1000} ms`)
})
