/**
 * `npm run argo`: lists kinds that Argo CD judges and we do not, by its list in KAS_VECTORS and by its Go module. A
 * missing source is named and skipped. It prints each of Argo CD's cases that we judge otherwise. Exits 1 if a kind has
 * no rule.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { type ArgoList, kindsWithoutRule, listOfModule, listOfVectors, moduleVersion } from './argo-kinds.ts'
import { compare } from './compare.ts'

const folder = process.env.KAS_VECTORS ?? ''
const rules = await vendorRules()

if (existsSync(join(folder, 'argo-custom.json'))) await tell(listOfVectors(folder))
else process.stdout.write("Argo CD's list in KAS_VECTORS: skipped, KAS_VECTORS is not set\n")
if (spawnSync('go', ['version']).status === 0) await tell(listOfModule(process.argv[2] ?? moduleVersion))
else process.stdout.write("Argo CD's Go module: skipped, there is no go\n")

async function tell({ name, kinds, vectors }: ArgoList): Promise<void> {
  const { equalStatus, differences } = await compare(vectors)
  for (const difference of differences) process.stdout.write(`${name}: ${difference}\n`)
  const missing = kindsWithoutRule(kinds, rules)
  for (const kind of missing) process.stdout.write(`${name}: no rule for ${kind}\n`)
  if (missing.length > 0) process.exitCode = 1
  process.stdout.write(
    `${name}: ${kinds.length} kinds, ${missing.length} without a rule; ${equalStatus} of ${vectors.length} cases equal by status\n`,
  )
}
