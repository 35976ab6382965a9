import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { treeOf } from '../../../../support/views/situation-tree.ts'
import { readSituations } from '../../../../vectors/causes-page.ts'
import type { Situation } from '../../../../vectors/situations.ts'

/** Lines that people who know only Kubernetes have misread in the output of `kas tree` for broken clusters. */

process.env.TZ = 'UTC'
const skip = existsSync(join(process.env.KAS_VECTORS ?? '', 'causes.json')) ? false : 'needs KAS_VECTORS'
const columns = 124

async function shown(name: string, ...argv: string[]): Promise<string> {
  const situation = readSituations().find((one) => one.name === name) as Situation
  return treeOf(situation, argv, columns)
}

t.test('of a rollout that is held up it says that the old version serves, and how to undo it', { skip }, async (t) => {
  const text = await shown('update-with-a-bad-image', 'deploy/web', '-n', 'shop')
  t.match(text, /Deployment\/web {2}3 of 3 available: old version serves {2}1\/3 updated to web:9 {2}since /)
  t.match(text, /\n +or undo: kubectl -n shop rollout undo deployment\/web\n/)
  t.notMatch(await shown('image-not-found', 'deploy/web', '-n', 'shop'), 'rollout undo', 'there is nothing before it')
})

t.test('an image that does not come is named once', { skip }, async (t) => {
  const text = (await shown('image-not-found', 'deploy/web', '-n', 'shop')).replaceAll(/\s+/g, ' ')
  t.match(text, ' ImageNotFound: container web: image registry.example.com/shop/web:1.4.2: not found next: ')
})
