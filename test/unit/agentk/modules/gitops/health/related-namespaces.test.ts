import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  maxRelatedNamespaces,
  RelatedNamespaces,
} from '../../../../../../src/agentk/modules/gitops/health/related-namespaces.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Places of namespaces among accounts, with an API server that refuses all lists. */

function start(t: Test) {
  const clock = new ManualClock()
  const namespaces = new RelatedNamespaces({ room: new Counter<string>(), clock, random: () => 0.5 })
  const client = { json: async () => ({ status: 403, body: {} }), send: async () => ({ status: 403 }) } as never
  const ended: string[] = []
  const leaves = new Set<() => void>()
  t.teardown(() => {
    for (const leave of leaves) leave()
  })
  return {
    ended,
    enter: (account: string, namespace: string) => {
      const onEnd = () => void ended.push(`${account}/${namespace}`)
      const reader = namespaces.enter({ account, namespace }, client, { onChange: () => undefined, onEnd })
      if (reader) leaves.add(reader.leave)
      return reader
    },
  }
}

t.test('an account may have all places while nobody else needs one', async (t) => {
  const { enter, ended } = start(t)
  for (let i = 0; i < maxRelatedNamespaces; i++) t.ok(enter('a', `n-${i}`), `${i}`)
  t.equal(enter('a', 'one-more'), undefined)
  t.ok(enter('a', 'n-3'), 'sources of one account share a namespace')
  t.strictSame(ended, [])
  await setImmediate()
})

t.test('accounts share the places: the one with the most gives its newest', async (t) => {
  const { enter, ended } = start(t)
  for (let i = 0; i < maxRelatedNamespaces; i++) enter('a', `n-${i}`)
  t.ok(enter('b', 'x'))
  t.strictSame(ended, [`a/n-${maxRelatedNamespaces - 1}`])
  for (let i = 0; i < maxRelatedNamespaces; i++) enter('b', `y-${i}`)
  t.equal(ended.filter((one) => one.startsWith('a/')).length, maxRelatedNamespaces / 2)
  t.notMatch(ended.join(), 'b/', 'nobody loses a place to an account that has as many')
  t.equal(enter('a', 'n-19'), undefined, 'they do not take turns with it')
  t.ok(enter('c', 'z'), 'a third one gets its own')
  await setImmediate()
})

t.test('a reader whose place was taken may leave, and takes nothing with it', async (t) => {
  const { enter, ended } = start(t)
  const readers = Array.from({ length: maxRelatedNamespaces }, (_, i) => enter('a', `n-${i}`))
  enter('b', 'x')
  readers.at(-1)?.leave()
  readers.at(-1)?.leave()
  readers[0]?.leave()
  t.ok(enter('b', 'y'), 'one place is free')
  t.equal(ended.length, 1)
})
