package manifests_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubectl answers a dry run with the file JOB, and writes what is created into the file CREATED.
const kubectl = `#!/bin/sh
case "$*" in
*--dry-run=client*) exec cat "$JOB" ;;
*"create --filename -") exec cat >"$CREATED" ;;
esac
exit 1
`

// settleScript runs k8s/settle.sh. job is nil if it created none.
func settleScript(t *testing.T, secret string, args ...string) (job *batchv1.Job, code int) {
	t.Helper()
	cron := render(t, "prod").cronJobs["settle"]
	dir := t.TempDir()
	dry, err :=
		json.Marshal(batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Name: "settle"}}}, Spec: cron.Spec.JobTemplate.Spec})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job"), dry, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700))
	created := filepath.Join(dir, "created")
	script := exec.CommandContext(t.Context(), filepath.Join("..", "settle.sh"), args...)
	script.Env = append(os.Environ(), "SECRET="+secret, "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"JOB="+filepath.Join(dir, "job"), "CREATED="+created)
	output, err := script.CombinedOutput()
	text, missing := os.ReadFile(created)
	if missing != nil {
		require.Error(t, err, "%s", output)
		return nil, script.ProcessState.ExitCode()
	}
	require.NoError(t, err, "%s", output)
	job = new(batchv1.Job)
	require.NoError(t, json.Unmarshal(text, job))
	return job, 0
}

func TestSettleScript_LeavesNoUserBehind(t *testing.T) {
	t.Parallel()
	forget := []string{"user", "forget", "--user", "7", "--operator=kim", "--reason=PRIVACY-9: asked by post"}
	job, _ := settleScript(t, "jajeong-privacy", forget...)
	require.Equal(t, forget, job.Spec.Template.Spec.Containers[0].Args)
	require.Empty(t, job.OwnerReferences, "a Job of the CronJob would count as its run")
	require.Equal(t, "jajeong-privacy", job.Spec.Template.Spec.Volumes[0].Secret.SecretName)
	require.LessOrEqual(t, *job.Spec.TTLSecondsAfterFinished, int32(600),
		"arguments and log name the user for no longer")

	job, _ = settleScript(t, "", "run")
	require.Equal(t, "jajeong-settle", job.Spec.Template.Spec.Volumes[0].Secret.SecretName)
}

func TestSettleScript_ApprovesAsAPerson(t *testing.T) {
	t.Parallel()
	approve := []string{"approve", "12", "--operator=lee", "--reason=MKT-2", "--yes"}
	for _, secret := range []string{"", "jajeong-settle", "jajeong-privacy", "jajeong-console"} {
		job, code := settleScript(t, secret, approve...)
		require.Nil(t, job, "%q is no person", secret)
		require.Equal(t, 2, code)
	}
	job, _ := settleScript(t, "settle-lee", approve...)
	require.Equal(t, "settle-lee", job.Spec.Template.Spec.Volumes[0].Secret.SecretName)
	require.Equal(t, approve, job.Spec.Template.Spec.Containers[0].Args)

	for _, args := range [][]string{nil, {"--yes", "approve", "12"}} {
		job, code := settleScript(t, "", args...)
		require.Nil(t, job, "the first word is a verb")
		require.Equal(t, 2, code)
	}
}
