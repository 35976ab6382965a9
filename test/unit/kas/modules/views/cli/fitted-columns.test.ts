import t from 'tap'
import { textTable } from '../../../../../../src/kas/command/text-table.ts'
import { fitted } from '../../../../../../src/kas/modules/views/cli/fitted-columns.ts'

const heads = ['NAMESPACE', 'NAME', 'READY', 'REASON', 'RESTARTS', 'SINCE', 'AGE', 'CULPRIT']
const row = [
  'team-payments-production',
  'settlement-worker-7f6d9c5b8-x7k2p',
  '0/2',
  'CreateContainerConfigError',
  '128',
  '≥12d',
  '30d',
  '2 Pods, e.g. settlement-worker-7f6d9c5b8-x7k2p',
]

t.test('a terminal has room for all that is looked at first', async (t) => {
  for (const columns of [60, 78, 100]) {
    const [head = '', line = ''] = textTable(fitted([heads, row], columns)).split('\n')
    const until = head.indexOf('SINCE') + 'SINCE'.length
    t.ok(until <= columns, `${until} of ${columns}`)
    t.equal(line.slice(until - 5, until - 1), '≥12d')
    t.match(line, /^team\S+ {2}sett\S+… {2}0\/2 {4}Create\S+… {2}128 /)
  }
})

t.test('no terminal cuts nothing, and a narrow one leaves the beginnings', async (t) => {
  t.strictSame(fitted([heads, row], Number.POSITIVE_INFINITY), [heads, row])
  const [, cut = []] = fitted([heads, row], 10)
  t.strictSame(cut.slice(0, 2), ['team-pay…', 'settlem…'])
})

t.test('a table without rows stays as it is', async (t) => {
  t.strictSame(fitted([heads], 40), [heads])
})
