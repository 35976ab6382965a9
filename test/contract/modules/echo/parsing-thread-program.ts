import { answerJobs } from '../../../../src/kas/agent-config/parsing-answer.ts'
import { echoSchemas } from './schema.ts'

answerJobs(echoSchemas.list)
