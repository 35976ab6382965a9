import t from 'tap'
import { NodeSelectors } from '../../../../../../src/agentk/modules/views/store/node-selectors.ts'

t.test('a namespace has so many; others find room, and nothing is looked for past that', async (t) => {
  let looked = 0
  const selectors = new NodeSelectors<string>({ max: 6, maxPerNamespace: 4 })
  const get = (namespace: string, selector: string) =>
    selectors.get(namespace, selector, () => {
      looked++
      return `nodes of ${selector}`
    })
  for (const one of ['1', '2', '3', '4']) t.equal(get('greedy', one), `nodes of ${one}`)
  t.equal(get('greedy', '5'), 'unread')
  t.equal(get('greedy', '4'), 'nodes of 4', 'what was found is kept')
  t.equal(looked, 4)
  t.equal(get('shop', '1'), 'nodes of 1')
  t.equal(looked, 4, 'what another one has asked for is not looked for again')
  t.equal(get('shop', 'a'), 'nodes of a')
  t.equal(get('bank', 'b'), 'nodes of b', 'the one with the most loses its oldest')
  t.equal(get('greedy', '1'), 'unread', 'it would have the most again')
  t.equal(get('shop', '1'), 'nodes of 1', 'which the others keep')
  t.equal(get('bank', 'c'), 'nodes of c')
  t.equal(get('bank', 'd'), 'unread', 'all have as many')
  t.equal(looked, 7)
  selectors.clear()
  t.equal(get('greedy', '5'), 'nodes of 5', 'a node has changed')
})
