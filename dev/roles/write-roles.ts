/** `npm run roles`: writes what the chart agentk has of vendors' kinds. `npm run manifests` takes it from there. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { vendorsRules } from './views-role.ts'

const file = join(import.meta.dirname, '../../deploy/charts/agentk/files/vendors.yaml')
writeFileSync(file, vendorsRules(await vendorRules()))
