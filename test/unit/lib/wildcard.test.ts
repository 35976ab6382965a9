import t from 'tap'
import { matchesWildcard } from '../../../src/lib/wildcard.ts'

t.test('a star is any text, all else is itself', async (t) => {
  const matching: readonly (readonly [pattern: string, text: string])[] = [
    ['', ''],
    ['*', ''],
    ['*', 'kubectl-edit'],
    ['kubectl*', 'kubectl'],
    ['kubectl*', 'kubectl-client-side-apply'],
    ['*.example.com', 'a.b.example.com'],
    ['a*b*c', 'a-b-b-c'],
    ['**', 'a'],
    ['a.b', 'a.b'],
    ['[x]?', '[x]?'],
  ]
  for (const [pattern, text] of matching) t.equal(matchesWildcard(pattern, text), true, `${pattern} ${text}`)
  const others: readonly (readonly [pattern: string, text: string])[] = [
    ['', 'a'],
    ['kubectl', 'kubectl-edit'],
    ['kubectl*', 'Kubectl'],
    ['a.b', 'axb'],
    ['a*b', 'abc'],
    ['*a', 'ab'],
    ['?', 'a'],
  ]
  for (const [pattern, text] of others) t.equal(matchesWildcard(pattern, text), false, `${pattern} ${text}`)
})

t.test('many stars take no longer than the product of the lengths', async (t) => {
  t.equal(matchesWildcard(`${'*a'.repeat(60)}b`, 'a'.repeat(2000)), false)
})
