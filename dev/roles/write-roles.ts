/** `npm run roles`: writes the vendors' kinds for the chart agentk. `npm run manifests` reads them from there. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { vendorsRules } from './views-role.ts'

const file = join(import.meta.dirname, '../../deploy/charts/agentk/files/vendors.yaml')
writeFileSync(file, vendorsRules(await vendorRules()))
