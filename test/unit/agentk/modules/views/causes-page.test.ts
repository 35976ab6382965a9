import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { causesPage, namesOn, readSituations, withTrees } from '../../../../vectors/causes-page.ts'

/** The output of the commands matches doc/guide/causes.md. */

process.env.TZ = 'UTC'
const skip = existsSync(join(process.env.KAS_VECTORS ?? '', 'causes.json')) ? false : 'needs KAS_VECTORS'
const breakages = 18

t.test('doc/guide/causes.md is what `npm run causes` writes', { skip, timeout: 60_000 }, async (t) => {
  const page = readFileSync(causesPage, 'utf8')
  const situations = readSituations()
  t.strictSame(
    namesOn(page),
    situations.slice(0, breakages).map(({ name }) => name),
  )
  t.equal(page, await withTrees(page, situations))
  const reasons = [...page.matchAll(/^\| \[.*\) \| (\w+) \|$/gm)].map(([, reason]) => reason)
  t.strictSame(
    reasons,
    situations.slice(0, breakages).map(({ expect }) => expect[0]?.reason),
  )
})

t.test('each row of its table leads to a section', async (t) => {
  const page = readFileSync(causesPage, 'utf8')
  const headings = [...page.matchAll(/^## (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
  const links = [...page.matchAll(/\]\(#([^)]+)\)/g)].map(([, to = '']) => to)
  t.equal(links.length, breakages)
  for (const link of links) t.ok(headings.includes(link), link)
})
