import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { vendorRules } from '../../../../src/agentk/health/custom/vendors.ts'
import { kindsWithoutRule, listOfVectors } from '../../../vectors/argo-kinds.ts'
import { compare, readVectors } from '../../../vectors/compare.ts'
import { compareSituations, type Situation } from '../../../vectors/situations.ts'

const folder = process.env.KAS_VECTORS ?? ''
const own = join(import.meta.dirname, '../../../vectors')
const absent = existsSync(join(folder, 'kstatus.json')) ? false : 'needs KAS_VECTORS'

for (const name of ['argo-built-in', 'argo-core', 'kstatus']) {
  t.test(`${name}: every status is equal`, { skip: absent }, async (t) => {
    const { vectors, equalStatus, texts, equalTexts, differences } = await compare(
      readVectors(join(folder, `${name}.json`)),
    )
    t.comment(`${name}: ${equalStatus} of ${vectors} by status, ${equalTexts} of ${texts} by text`)
    t.ok(vectors > 0)
    t.same(differences, [])
  })
}

t.test('kinds of vendors: nineteen of twenty, as data alone', { skip: absent }, async (t) => {
  const { vectors, equalStatus, texts, equalTexts } = await compare(readVectors(join(folder, 'argo-custom.json')))
  t.comment(`argo-custom: ${equalStatus} of ${vectors} by status, ${equalTexts} of ${texts} by text`)
  t.ok(equalStatus >= 0.95 * vectors, `${equalStatus} of ${vectors}`)
})

t.test('kinds of vendors, as their projects describe them: every status and text is equal', async (t) => {
  const { vectors, differences, texts, equalTexts } = await compare(readVectors(join(own, 'vendors.json')))
  t.ok(vectors > 0)
  t.same(differences, [])
  t.equal(equalTexts, texts)
})

t.test('each kind that Argo CD judges has a rule', { skip: absent }, async (t) => {
  const { kinds } = listOfVectors(folder)
  t.ok(kinds.length > 0)
  t.same(kindsWithoutRule(kinds, await vendorRules()), [])
  t.same(kindsWithoutRule(['example.com/Thing', 'Pod', 'kiali.io/Kiali'], []), ['example.com/Thing', 'kiali.io/Kiali'])
})

for (const name of ['causes', 'causes-kubelet', 'causes-reports']) {
  const file = join(folder, `${name}.json`)
  const skip = existsSync(file) ? false : 'needs KAS_VECTORS'
  t.test(`${name}: each root has its cause, in whatever order objects come`, { skip }, async (t) => {
    const { situations, falseDegraded, differences } = await compareSituations(
      JSON.parse(readFileSync(file, 'utf8')) as Situation[],
    )
    t.ok(situations > 0)
    t.equal(falseDegraded, 0)
    t.same(differences, [])
  })
}
