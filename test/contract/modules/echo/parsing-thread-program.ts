import { answerJobs } from '../../../../src/kas/agent-config/parsing-answer.ts'
import { echoSchemas } from './module-schemas.ts'

answerJobs(echoSchemas.list)
