import t from 'tap'
import { RuleReader, type RuleSources } from '../../../../../../src/agentk/health/custom/rule-sources.ts'
import { asideTexts, putAside } from '../../../../../../src/agentk/modules/views/thread/put-aside.ts'

const rule = (kind: string) => ({ kind, rules: [{ when: 'true', verdict: 'Healthy' }] })
const judged = (kind: string, part = 'rules[0]') => ({ count: 1, kind, part, object: 'secret-namespace/secret-name' })
const read = (kinds: readonly string[]) => new RuleReader([]).read(kinds.map(rule))

t.test('a rule is named by its place in views.yaml, and no object is', async (t) => {
  const sources = read(['Pod', 'ConfigMap', 'Service'])
  const one = putAside(putAside(sources, judged('Service', ''), 5), judged('ConfigMap', 'rules[2]'), 5)
  t.strictSame(asideTexts(one), [
    'Service: health[2] took more than 5 s for one object, or to be compiled',
    'ConfigMap: health[1].rules[2] took more than 5 s for one object, or to be compiled',
  ])
  t.strictSame(one.users, sources.users.slice(0, 1))
})

t.test('rules that are broken otherwise are not among them', async (t) => {
  const { unread } = new RuleReader([]).read([{ kind: 'Pod', rules: [] }])
  t.equal(unread.length, 1)
  t.strictSame(asideTexts({ unread }), [])
})

t.test('facts name ten of them, of 256 characters each', async (t) => {
  const kinds = Array.from({ length: 12 }, (_, i) => `${'a'.repeat(253)}/Thing${i}`)
  const all = kinds.reduce((sources: RuleSources, kind) => putAside(sources, judged(kind), 5), read(kinds))
  const texts = asideTexts(all)
  t.equal(texts.length, 10)
  t.ok(texts.every(({ length }) => length === 256))
})
