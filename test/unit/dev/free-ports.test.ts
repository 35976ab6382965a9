import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'

/** more ports than one block has */
const count = 120

t.test('processes that ask at once, and long before they listen, get ports of their own', async (t) => {
  const holder = join(import.meta.dirname, 'ports-holder.ts')
  const children = Array.from({ length: 3 }, () => fork(holder, [String(count)]))
  t.teardown(() => {
    for (const child of children) child.disconnect()
  })
  const given = await Promise.all(children.map(async (child) => (await once(child, 'message'))[0] as number[]))
  t.equal(new Set(given.flat()).size, children.length * count)
})
