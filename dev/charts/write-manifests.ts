/** `npm run manifests`: writes deploy/kubernetes/kas, agentk and agentk-access, and what tests expect of the charts. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expectations, renderExpected } from './expected.ts'
import { findHelm } from './helm.ts'
import { plainManifests } from './manifests.ts'

const helm = findHelm()
if (helm === undefined) {
  process.stderr.write('kas: no manifests: neither KAS_RENDERERS nor PATH has helm\n')
  process.exitCode = 1
} else {
  const folder = join(import.meta.dirname, '../../deploy/kubernetes')
  for (const [file, text] of await plainManifests(helm)) writeFileSync(join(folder, file), text)
  for (const one of expectations()) writeFileSync(one.rendered, await renderExpected(helm, one))
}
