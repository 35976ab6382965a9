/** `npm run manifests`: writes deploy/kubernetes, what the chart kas has of deploy/monitoring, and what tests expect. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expectations, renderExpected } from './expected.ts'
import { chartsFolder, findHelm } from './helm.ts'
import { plainManifests } from './manifests.ts'
import { monitoringFiles } from './monitoring.ts'

const helm = findHelm()
if (helm === undefined) {
  process.stderr.write('kas: no manifests: neither KAS_RENDERERS nor PATH has helm\n')
  process.exitCode = 1
} else {
  // of these the charts make the others
  for (const [file, text] of monitoringFiles()) writeFileSync(join(chartsFolder, 'kas', file), text)
  const folder = join(import.meta.dirname, '../../deploy/kubernetes')
  for (const [file, text] of await plainManifests(helm)) writeFileSync(join(folder, file), text)
  for (const one of expectations()) writeFileSync(one.rendered, await renderExpected(helm, one))
}
