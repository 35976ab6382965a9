/** `npm run roles`: writes deploy/kubernetes/agentk-views/vendors.yaml. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { vendorsRole } from './views-role.ts'

const file = join(import.meta.dirname, '../../deploy/kubernetes/agentk-views/vendors.yaml')
writeFileSync(file, vendorsRole(await vendorRules()))
