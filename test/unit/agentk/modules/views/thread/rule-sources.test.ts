import t from 'tap'
import { usersRules } from '../../../../../../src/agentk/modules/views/thread/rule-sources.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'

const rule = (kind: string) => ({ kind, rules: [{ when: 'true', verdict: 'Healthy' }] })

t.test('what cannot be read is told, and left out', async (t) => {
  const { log, lines } = capturedLog()
  const found = usersRules([rule('Pod'), { ...rule('Service'), rules: [] }, 7, rule('Node')], log)
  t.strictSame(
    found.map(({ kind }) => kind),
    ['Pod', 'Node'],
  )
  t.match(lines, [
    { msg: 'A rule of health is not used', rule: 2, problem: /^rules: / },
    { msg: 'A rule of health is not used', rule: 3 },
  ])
})

t.test('users write rules for so many kinds', async (t) => {
  const { log, lines } = capturedLog()
  const all = Array.from({ length: 66 }, (_, i) => rule(`example.com/Thing${i}`))
  t.equal(usersRules(all, log).length, 64)
  t.match(lines, [{ rule: 65, problem: 'more than 64 rules' }, { rule: 66 }])
})
