import t from 'tap'
import { RuleReader } from '../../../../src/agentk/health/custom/rule-sources.ts'

const rule = (kind: string, more: object = {}) => ({ kind, rules: [{ when: 'true', verdict: 'Healthy' }], ...more })
const kindsOf = (rules: readonly { readonly kind: string }[]) => rules.map(({ kind }) => kind)

t.test('what cannot be read is left out, and said', async (t) => {
  const { users, unread } = new RuleReader([]).read([rule('Pod'), rule('Service', { rules: [] }), 7, rule('Node')])
  t.strictSame(kindsOf(users), ['Pod', 'Node'])
  t.match(unread, [
    { kind: 'Service', problem: /^rules: /, isKept: false },
    { kind: 'rule 3', isKept: false },
  ])
})

t.test('users write rules for so many kinds', async (t) => {
  const all = Array.from({ length: 66 }, (_, i) => rule(`example.com/Thing${i}`))
  const { users, unread } = new RuleReader([]).read(all)
  t.equal(users.length, 64)
  t.match(unread, [
    { kind: 'example.com/Thing64', problem: 'more than 64 rules', isKept: false },
    { kind: 'example.com/Thing65', problem: 'more than 64 rules', isKept: false },
  ])
})

t.test('in the place of what cannot be read is its last form that could be used', async (t) => {
  const reader = new RuleReader([])
  const { users, last } = reader.read([rule('a.com/A'), rule('b.com/B')])
  t.strictSame(last, [])
  reader.used(users)
  const broken = reader.read([rule('a.com/A', { rules: [{ when: 'true', verdict: 'Fine' }] }), rule('b.com/B')])
  t.strictSame(broken.users, users)
  t.match(broken.unread, [{ kind: 'a.com/A', problem: /verdict/, isKept: true }])
})

t.test('a form stays while its kind is named, however often it is broken, and goes with it', async (t) => {
  const reader = new RuleReader([])
  reader.used(reader.read([rule('a.com/A'), rule('b.com/B')]).users)
  for (let i = 0; i < 2; i++) {
    const { users, last } = reader.read([rule('a.com/A', { let: { x: ')' } }), rule('b.com/B')])
    t.same(kindsOf(last).sort(), ['a.com/A', 'b.com/B'])
    reader.used(users.filter(({ kind }) => kind === 'b.com/B'))
  }
  reader.read([rule('b.com/B')])
  reader.used([])
  t.same(kindsOf(reader.read([]).last), ['b.com/B'])
})

t.test(
  'a kind is no longer than its group and its name may be, and a longer one is cut where it is named',
  async (t) => {
    const [longest, longer] = [`${'a'.repeat(253)}/${'B'.repeat(63)}`, '*'.repeat(2000)]
    const { users, unread, named } = new RuleReader([]).read([rule(longest), rule(longer)])
    t.strictSame(kindsOf(users), [longest])
    t.match(unread, [{ kind: longer.slice(0, 317), problem: /^kind: /, isKept: false }])
    t.strictSame(named, [longest, longer.slice(0, 317)])
  },
)
