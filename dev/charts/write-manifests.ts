/**
 * `npm run manifests`: writes deploy/kubernetes, the chart kas' copy of deploy/monitoring, and the output that tests
 * expect.
 */
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
  // the charts make the other files from these
  for (const [file, text] of monitoringFiles()) writeFileSync(join(chartsFolder, 'kas', file), text)
  const folder = join(import.meta.dirname, '../../deploy/kubernetes')
  for (const [file, text] of await plainManifests(helm)) writeFileSync(join(folder, file), text)
  for (const one of expectations()) writeFileSync(one.rendered, await renderExpected(helm, one))
}
